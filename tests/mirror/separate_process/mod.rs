//! A mirror in a process of its own: for roots that it can only read, and for agents that send
//! nothing themselves.

mod live_agents;
mod read_only_root;
mod setup;
mod state;
mod state_directory;
