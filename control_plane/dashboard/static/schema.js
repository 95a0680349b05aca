// The schemas of documents, from the API's own description: what fields there are where.

let described = null;

/** Return the component schemas, read once. */
export async function schemas() {
  described ??= fetch("/openapi.json").then(async (answer) => (answer.ok ? (await answer.json()).components.schemas : {}));
  return described;
}

/** Return [[name, type or values]] of the fields of `kind` below `path`; [] where there are none. */
export function fieldsAt(all, kind, path) {
  let node = all[kind];
  for (const key of path) node = into(all, node, key);
  const found = resolve(all, node);
  return Object.entries(found?.properties ?? {}).map(([name, schema]) => [name, typeOf(all, schema)]);
}

/** Return the values that the field at `path` may have, if they are few. */
export function valuesAt(all, kind, path) {
  let node = all[kind];
  for (const key of path) node = into(all, node, key);
  return values(all, node);
}

function values(all, node) {
  const found = resolve(all, node);
  if (!found) return [];
  if (found.enum) return found.enum.map(String);
  if (found.const !== undefined) return [String(found.const)];
  if (found.type === "boolean") return ["true", "false"];
  if (found.examples) return found.examples.map(String);
  return found.type === "array" ? values(all, found.items) : [];
}

function into(all, node, key) {
  const found = resolve(all, node);
  return found?.properties?.[key] ?? (typeof found?.additionalProperties === "object" ? found.additionalProperties : undefined);
}

/** Follow references, the part of an optional that is not null, and the items of a list. */
function resolve(all, node) {
  let found = node;
  for (let step = 0; found && step < 9; step++) {
    if (found.$ref) found = all[found.$ref.split("/").at(-1)];
    else if (found.anyOf) found = found.anyOf.find((one) => one.type !== "null");
    else if (found.allOf?.length === 1) [found] = found.allOf;
    else if (found.type === "array" && found.items && (found.items.$ref || found.items.properties)) found = found.items;
    else return found;
  }
  return found;
}

function typeOf(all, schema) {
  const few = values(all, schema);
  if (few.length && few.length < 6) return few.join(" | ");
  const found = resolve(all, schema);
  return found?.properties ? "{…}" : (found?.type ?? "");
}
