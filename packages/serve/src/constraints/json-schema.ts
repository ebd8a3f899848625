import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';
import {
  character,
  choice,
  except,
  literal,
  optional,
  type Pattern,
  type Rule,
  repeat,
  sequence,
} from './pattern.ts';
import { faultyRule } from './rule-checks.ts';
import { patternOfExpression } from './regular-expression.ts';

const MAX_DEPTH = 32;
const MAX_PROPERTIES = 256;
/** The most parts of a schema, with those of $refs as often as they are named. */
const MAX_PARTS = 5000;

/** What says nothing of the text. */
const annotations = [
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  'format',
  'deprecated',
  'readOnly',
  'writeOnly',
];

type Schema = Readonly<Record<string, unknown>>;

const size = z.int().nonnegative().max(10_000);
const schemaRule = z.record(z.string(), z.unknown());
const jsonValue = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const digits = repeat(character(['0', '9']), 1);
const integer = sequence(
  optional(literal('-')),
  choice([literal('0'), sequence(character(['1', '9']), repeat(character(['0', '9']), 0))]),
);
const number = sequence(
  integer,
  optional(sequence(literal('.'), digits)),
  optional(
    sequence(
      character(['e', 'e'], ['E', 'E']),
      optional(character(['+', '+'], ['-', '-'])),
      digits,
    ),
  ),
);
const hexDigit = character(['0', '9'], ['A', 'F'], ['a', 'f']);
/** A character of a text, as JSON writes it. */
const letter = choice([
  except([
    { first: 0, last: 0x1f },
    { first: 0x22, last: 0x22 },
    { first: 0x5c, last: 0x5c },
  ]),
  sequence(
    literal('\\'),
    choice([
      character(
        ['"', '"'],
        ['\\', '\\'],
        ['/', '/'],
        ['b', 'b'],
        ['f', 'f'],
        ['n', 'n'],
        ['r', 'r'],
        ['t', 't'],
      ),
      sequence(literal('u'), repeat(hexDigit, 4, 4)),
    ]),
  ),
]);
const space = optional(literal(' '));
const comma = sequence(literal(','), space);

/**
 * The texts of JSON that a schema describes, with at most one blank behind a comma and a colon, and with properties in
 * the order of the schema. Objects have no other properties than those that are named. Known are the types, `enum`,
 * `const`, `anyOf`, `$ref` to `$defs`, lengths of texts and of arrays, and `pattern`. Throws ConfigError for a schema
 * that says more, or that cannot be met.
 */
export function patternOfSchema(schema: unknown): Pattern {
  const pattern = new SchemaReader(schema).read(schema, []);
  const faulty = faultyRule(pattern);
  if (faulty === null) return pattern;
  const { rule, fault } = faulty;
  throw refused([], `${rule.name}, which ${fault}, so that it cannot be met`);
}

/** The texts of all objects of JSON, with at most one blank behind a comma and a colon. */
export function patternOfAnyObject(): Pattern {
  const value: Rule = { name: 'value', pattern: sequence() };
  const inner: Pattern = { kind: 'rule', rule: value };
  const text = quoted(repeat(letter, 0));
  const pair = sequence(text, literal(':'), space, inner);
  const listed = (item: Pattern): Pattern =>
    optional(sequence(item, repeat(sequence(comma, item), 0)));
  const object = sequence(literal('{'), listed(pair), literal('}'));
  const array = sequence(literal('['), listed(inner), literal(']'));
  const names = ['true', 'false', 'null'].map((name) => literal(name));
  value.pattern = choice([object, array, text, number, ...names]);
  return object;
}

class SchemaReader {
  readonly #root: unknown;
  /** The schemas that are referred to and not yet read to their ends. */
  readonly #open = new Map<string, Rule>();
  #parts = 0;

  constructor(root: unknown) {
    this.#root = root;
  }

  read(value: unknown, path: readonly string[]): Pattern {
    if (++this.#parts > MAX_PARTS) throw refused([], `more than ${MAX_PARTS} parts`);
    const schema = parsed(schemaRule, value, path);
    if (path.length > MAX_DEPTH) throw refused(path, 'a schema that is too deep');
    if ('$ref' in schema) return this.#referred(schema, path);
    if ('const' in schema) {
      only(schema, ['const', 'type'], path);
      return literalOf(schema['const'], path);
    }
    if ('enum' in schema) {
      only(schema, ['enum', 'type'], path);
      return some(
        parsed(z.array(z.unknown()), schema['enum'], path).map((each) => literalOf(each, path)),
        path,
      );
    }
    if ('anyOf' in schema) {
      only(schema, ['anyOf'], path);
      const options = parsed(z.array(z.unknown()), schema['anyOf'], path);
      return some(
        options.map((each, index) => this.read(each, [...path, `anyOf ${index}`])),
        path,
      );
    }
    const types = parsed(z.union([z.string(), z.array(z.string())]), schema['type'], [
      ...path,
      'type',
    ]);
    const named = typeof types === 'string' ? [types] : types;
    const own = named.length === 1 ? schema : withoutKeysOfOthers(schema, named, path);
    return some(
      named.map((type) => this.#ofType(type, own, path)),
      path,
    );
  }

  #ofType(type: string, schema: Schema, path: readonly string[]): Pattern {
    switch (type) {
      case 'null':
        only(schema, ['type'], path);
        return literal('null');
      case 'boolean':
        only(schema, ['type'], path);
        return choice([literal('true'), literal('false')]);
      case 'integer':
        only(schema, ['type'], path);
        return integer;
      case 'number':
        only(schema, ['type'], path);
        return number;
      case 'string':
        return textOf(schema, path);
      case 'array':
        return this.#array(schema, path);
      case 'object':
        return this.#object(schema, path);
      default:
        throw refused(path, `the type ${JSON.stringify(type)}`);
    }
  }

  #referred(schema: Schema, path: readonly string[]): Pattern {
    only(schema, ['$ref'], path);
    const reference = parsed(z.string(), schema['$ref'], path);
    const [root, ...names] = reference.split('/');
    let target: unknown = root === '#' ? this.#root : undefined;
    for (const name of names) {
      const own = schemaRule.safeParse(target);
      target = own.success && Object.hasOwn(own.data, name) ? own.data[name] : undefined;
    }
    if (target === undefined)
      throw refused(path, `$ref: ${JSON.stringify(reference)}, which is not there`);
    const open = this.#open.get(reference);
    if (open !== undefined) return { kind: 'rule', rule: open };
    const rule: Rule = { name: reference, pattern: sequence() };
    this.#open.set(reference, rule);
    rule.pattern = this.read(target, [...path, reference]);
    this.#open.delete(reference);
    return { kind: 'rule', rule };
  }

  #array(schema: Schema, path: readonly string[]): Pattern {
    only(schema, ['type', 'items', 'minItems', 'maxItems'], path);
    const item = this.read(schema['items'], [...path, 'items']);
    const [least, most] = limitsOf(schema, 'minItems', 'maxItems', path);
    if (most === 0) return literal('[]');
    const others = repeat(sequence(comma, item), Math.max(0, least - 1), most - 1);
    const filled = sequence(literal('['), item, others, literal(']'));
    return least === 0 ? choice([literal('[]'), filled]) : filled;
  }

  #object(schema: Schema, path: readonly string[]): Pattern {
    only(schema, ['type', 'properties', 'required', 'additionalProperties'], path);
    if ((schema['additionalProperties'] ?? false) !== false) {
      throw refused(path, 'additionalProperties, of which the names are not known');
    }
    const properties = Object.entries(parsed(schemaRule, schema['properties'] ?? {}, path));
    const required = new Set(parsed(z.array(z.string()), schema['required'] ?? [], path));
    const unknown = [...required].find((name) => !properties.some(([own]) => own === name));
    if (unknown !== undefined) throw refused(path, `a required '${unknown}' that is no property`);
    if (properties.length > MAX_PROPERTIES) throw refused(path, `${properties.length} properties`);
    const pairs = properties.map(([name, value]) => ({
      isRequired: required.has(name),
      pair: sequence(literal(`${JSON.stringify(name)}:`), space, this.read(value, [...path, name])),
    }));
    // Each property may be the first one, if none before it is required.
    const firstRequired = pairs.findIndex(({ isRequired }) => isRequired);
    const begins = firstRequired === -1 ? pairs : pairs.slice(0, firstRequired + 1);
    const filled = begins.map(({ pair }, index) =>
      sequence(
        pair,
        ...pairs.slice(index + 1).map((other) => {
          const next = sequence(comma, other.pair);
          return other.isRequired ? next : optional(next);
        }),
      ),
    );
    const inner = firstRequired === -1 ? [sequence(), ...filled] : filled;
    return sequence(literal('{'), choice(inner), literal('}'));
  }
}

function quoted(inner: Pattern): Pattern {
  return sequence(literal('"'), inner, literal('"'));
}

function textOf(schema: Schema, path: readonly string[]): Pattern {
  if ('pattern' in schema) {
    only(schema, ['type', 'pattern'], path);
    const source = parsed(z.string(), schema['pattern'], path);
    // Elsewhere it may match a part of the text.
    if (!source.startsWith('^') || !source.endsWith('$')) {
      throw refused(path, `the pattern ${JSON.stringify(source)} of a part of a text`);
    }
    return quoted(written(patternOfExpression(source), path));
  }
  only(schema, ['type', 'minLength', 'maxLength'], path);
  const [least, most] = limitsOf(schema, 'minLength', 'maxLength', path);
  return quoted(repeat(letter, least, most));
}

/** A pattern of characters, as JSON writes them: those that it escapes are refused, or left out of larger sets. */
function written(pattern: Pattern, path: readonly string[]): Pattern {
  const deeper = (each: Pattern): Pattern => written(each, path);
  switch (pattern.kind) {
    case 'character': {
      const ranges = pattern.ranges.flatMap(({ first, last }) =>
        [
          [0x20, 0x21],
          [0x23, 0x5b],
          [0x5d, 0x10ffff],
        ].flatMap(([from = 0, to = 0]) => {
          const [a, b] = [Math.max(first, from), Math.min(last, to)];
          return a <= b ? [{ first: a, last: b }] : [];
        }),
      );
      if (ranges.length === 0) throw refused(path, 'a pattern with a character that JSON escapes');
      return { kind: 'character', ranges };
    }
    case 'sequence':
      return { ...pattern, parts: pattern.parts.map(deeper) };
    case 'choice':
      return { ...pattern, options: pattern.options.map(deeper) };
    case 'repeat':
      return { ...pattern, part: deeper(pattern.part) };
    case 'rule':
      throw refused(path, 'a pattern with rules');
    default:
      return pattern satisfies never;
  }
}

function literalOf(value: unknown, path: readonly string[]): Pattern {
  return literal(JSON.stringify(parsed(jsonValue, value, path)));
}

function some(options: readonly Pattern[], path: readonly string[]): Pattern {
  const [only] = options;
  if (only === undefined) throw refused(path, 'no value that is allowed, so that it cannot be met');
  return options.length === 1 ? only : choice(options);
}

function limitsOf(
  schema: Schema,
  leastKey: string,
  mostKey: string,
  path: readonly string[],
): readonly [least: number, most: number] {
  const least = parsed(size, schema[leastKey] ?? 0, [...path, leastKey]);
  const most =
    schema[mostKey] === undefined ? Infinity : parsed(size, schema[mostKey], [...path, mostKey]);
  if (least <= most) return [least, most];
  throw refused(path, `${leastKey}: ${least} and ${mostKey}: ${most}, so that it cannot be met`);
}

/** With several types, no keyword belongs to one of them alone. */
function withoutKeysOfOthers(
  schema: Schema,
  types: readonly string[],
  path: readonly string[],
): Schema {
  only(schema, ['type'], path);
  const unbounded = types.find((type) => type === 'array' || type === 'object');
  if (unbounded !== undefined)
    throw refused(path, `the type ${unbounded} beside others: use anyOf`);
  return schema;
}

function only(schema: Schema, known: readonly string[], path: readonly string[]): void {
  const unknown = Object.keys(schema).find((key) => ![...known, ...annotations].includes(key));
  if (unknown !== undefined) throw refused(path, `'${unknown}', which is not known here`);
}

function parsed<Value>(rule: z.ZodType<Value>, value: unknown, path: readonly string[]): Value {
  const found = rule.safeParse(value);
  if (found.success) return found.data;
  throw refused(path, found.error.issues[0]?.message ?? 'something else');
}

function refused(path: readonly string[], found: string): ConfigError {
  const at = path.length === 0 ? 'its root' : path.join(' / ');
  return new ConfigError(
    {
      asked: 'an output of a JSON schema',
      found: `at ${at}: ${found}`,
      todo: 'Use types, enum, const, anyOf, $ref to $defs, limits of lengths, and patterns of whole texts',
    },
    { path },
  );
}
