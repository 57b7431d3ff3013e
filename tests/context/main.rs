//! Where traces begin and go on, and how their context flows in and out.

mod asked;
mod bridge;
mod carried;
#[allow(dead_code)]
#[path = "../recognise/library.rs"]
mod library;
mod long;
mod neighbours;
mod parents;
mod process;
mod propagation;
mod recognised;
#[allow(dead_code)]
#[path = "../mirror_map/scene.rs"]
mod scene;
#[path = "../support/mod.rs"]
mod support;
mod taken;
mod traces;
