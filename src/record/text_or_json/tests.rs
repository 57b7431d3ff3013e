use super::*;
use serde_json::json;

fn of(value: &impl Serialize) -> (RawForm, String) {
    let mut out = String::new();
    let form = append(value, &mut out).unwrap();
    (form, out)
}

struct Unit;
impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_unit_variant("Unit", 0, "Word")
    }
}

#[test]
fn a_text_is_that_text_however_it_is_wrapped() {
    let nasty = "\"\\/\u{8}\n\r\t\u{1}\u{7f}\u{2028}é";
    let text = |text: &str| (RawForm::Text, text.to_owned());
    assert_eq!(of(&nasty), text(nasty));
    assert_eq!(of(&json!(nasty)), text(nasty));
    assert_eq!(of(&Some(&nasty)), text(nasty));
    assert_eq!(
        of(&format_args!("{}-{nasty}", 1)),
        text(&format!("1-{nasty}"))
    );
    assert_eq!(of(&'é'), text("é"));
    assert_eq!(of(&Unit), text("Word"));
    assert_eq!(of(&""), text(""));
}

#[test]
fn anything_else_is_the_json_that_serde_json_writes() {
    fn same(value: &impl Serialize) {
        let json = serde_json::to_string(value).unwrap();
        let (what, text) = of(value);
        assert_ne!(what, RawForm::Text);
        assert_eq!(text, json);
    }
    same(&json!({"a": "\"\n", "b": [1, null, "c"], "d": {}}));
    same(&["\"", "x"]);
    same(&("a", 1, 0.1f32));
    same(&-1.5);
    same(&f64::NAN);
    same(&u128::MAX);
    same(&true);
    same(&i64::MIN);
    same(&-1i8);
    same(&u64::MAX);
    same(&Some(120u16));
    same(&None::<u8>);
    same(&());
    same(&Ok::<u8, ()>(1));
}
