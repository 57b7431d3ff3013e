//! The setters of span and event builders, made from the fields of the [schema](crate::trace).

/// The type of a setter's argument, by the form of the field.
macro_rules! value_type {
    (text) => { impl AsRef<str> };
    (long) => { impl AsRef<str> };
    (u64) => { u64 };
    (f64) => { f64 };
    (bool) => { bool };
    ($json:ident) => { impl serde::Serialize };
}

/// Adds a value to fields, by the form of the field. `r#final` is the field `final`.
macro_rules! set_field {
    (text $fields:expr, $name:ident) => {
        $fields.text(stringify!($name), $name.as_ref())
    };
    (long $fields:expr, $name:ident) => {
        $fields.text(stringify!($name), $name.as_ref())
    };
    (f64 $fields:expr, $name:ident) => {
        $fields.f64(stringify!($name), $name)
    };
    ($json:ident $fields:expr, $name:ident) => {
        $fields.json(crate::trace::typed::field_name(stringify!($name)), &$name)
    };
}

/// A setter for each field that an agent may set, on a builder that has `fields_mut()`.
macro_rules! field_setters {
    ({ $( $role:ident $form:ident $field:ident: $doc:literal; )* }) => {
        $( field_setters! { @$role $form $field $doc } )*
    };
    (@need $form:ident $field:ident $doc:literal) => {
        // For the constructor, which has it as an argument.
        #[allow(dead_code, clippy::wrong_self_convention)]
        fn $field(mut self, $field: value_type!($form)) -> Self {
            set_field!($form self.fields_mut(), $field);
            self
        }
    };
    (@own $form:ident $field:ident $doc:literal) => {};
    (@stamped $form:ident $field:ident $doc:literal) => {};
    (@$role:ident error $field:ident $doc:literal) => {};
    // `SessionRun::branched_from` has two arguments.
    (@$role:ident object branched_from $doc:literal) => {};
    (@$role:ident usage $field:ident $doc:literal) => {
        #[doc = $doc]
        pub fn $field(mut self, usage: &crate::Usage) -> Self {
            self.fields_mut().usage(usage);
            self
        }
    };
    (@$role:ident $form:ident $field:ident $doc:literal) => {
        #[doc = $doc]
        pub fn $field(mut self, $field: value_type!($form)) -> Self {
            set_field!($form self.fields_mut(), $field);
            self
        }
    };
}

pub(super) use {field_setters, set_field, value_type};
