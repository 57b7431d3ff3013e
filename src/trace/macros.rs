//! Macros for what many types have alike: setters of builders, and enums whose variants have names.

/// Consuming setters: `pub fn name(self, value: T) { … }` changes `self` and returns it.
macro_rules! setters {
    ($( $(#[$doc:meta])* pub fn $name:ident($self:ident, $($arg:ident: $type:ty),+) $body:block )+) => { $(
        $(#[$doc])*
        pub fn $name(mut $self, $($arg: $type),+) -> Self {
            $body;
            $self
        }
    )+ };
}

/// An enum whose variants have names: `Variant = "name"`. Gives it `ALL`, `as_str`, `parse`, `FromStr` and `Display`.
macro_rules! named_enum {
    (
        $(#[$doc:meta])*
        pub enum $Enum:ident { $( $(#[$variant_doc:meta])* $Variant:ident = $name:literal, )+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Enum { $( $(#[$variant_doc])* $Variant, )+ }

        impl $Enum {
            /// All of them.
            pub const ALL: [Self; [$( $name ),+].len()] = [$( Self::$Variant ),+];

            /// Its name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$Variant => $name, )+
                }
            }

            /// The one with this name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$Variant), )+
                    _ => None,
                }
            }
        }

        impl std::str::FromStr for $Enum {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                let names = || Self::ALL.map(Self::as_str).join(", ");
                Self::parse(name).ok_or_else(|| format!("use one of {}", names()))
            }
        }

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use {named_enum, setters};
