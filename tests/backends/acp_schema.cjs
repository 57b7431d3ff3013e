// Checks the lines on standard input against the JSON Schema of the Agent Client Protocol, by method. Prints how
// many lines there were.
const Ajv = require("ajv/dist/2020").default, fs = require("fs");
const base = process.env.SPANLEDGER_ACP + "/node_modules/@agentclientprotocol/sdk/schema/v1/schema.json";
const defs = JSON.parse(fs.readFileSync(base)).$defs;
const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
ajv.addSchema({ $id: "acp", $defs: defs });
const byMethod = (method, suffixes) => Object.keys(defs).find(name =>
  defs[name]["x-method"] === method && suffixes.some(suffix => name.endsWith(suffix)));
const asked = new Map();
let lines = 0;
const check = (name, value, line) => {
  const validate = ajv.getSchema("acp#/$defs/" + name);
  if (!validate(value)) { console.error(line, ajv.errorsText(validate.errors)); process.exitCode = 1; }
};
for (const line of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const message = JSON.parse(line);
  lines++;
  if (message.jsonrpc !== "2.0") { console.error("not JSON-RPC", line); process.exitCode = 1; }
  if (message.method) {
    const name = byMethod(message.method, ["Request", "Notification"]);
    if (!name) { console.error("unknown method", line); process.exitCode = 1; continue; }
    check(name, message.params, line);
    if (message.id !== undefined) {
      if (asked.has(message.id)) { console.error("id twice", line); process.exitCode = 1; }
      asked.set(message.id, message.method);
    }
  } else {
    const method = asked.get(message.id);
    if (!method) { console.error("answer to nothing", line); process.exitCode = 1; continue; }
    if (message.error) check("Error", message.error, line);
    else check(byMethod(method, ["Response"]), message.result, line);
  }
}
console.log(lines);
