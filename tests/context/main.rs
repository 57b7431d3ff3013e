//! Where traces begin and go on, and how their context flows in and out.

mod bridge;
mod neighbours;
mod parents;
mod process;
mod propagation;
#[allow(dead_code)]
#[path = "../mirror_map/scene.rs"]
mod scene;
#[path = "../support/mod.rs"]
mod support;
mod taken;
mod traces;
