import { ConfigError } from '@shardwise/core/extend';
import { choice, except, literal, type Pattern, repeat, type Rule, sequence } from './pattern.ts';
import { faultyRule } from './rule-checks.ts';
import { patternOfExpression } from './regular-expression.ts';

const ROOT = 'root';
const MAX_DEPTH = 100;
const MAX_REPEATS = 1000;
/** The most parts of all rules. */
const MAX_PARTS = 5000;

const blanks = /(?:\s|#[^\n]*)*/y;
const token =
  /::=|[A-Za-z_][\w-]*|"(?:[^"\\\n]|\\.)*"|\[(?:[^\]\\\n]|\\.)+\]|\{\d+(?:,\d*)?\}|[()|*+?.]/y;

/**
 * The texts that the rule `root` of a grammar describes. Rules are those of GBNF (`name ::= …`): texts in double quotes,
 * classes of characters, `.`, groups, `|`, `* + ?`, `{m,n}`, other rules, and comments behind `#`. Throws ConfigError
 * for what is no grammar, for a rule that begins with itself, and for one whose texts never end.
 */
export function patternOfGrammar(source: string): Pattern {
  const pattern = new GrammarReader(rulesOf(source)).rule(ROOT);
  const faulty = faultyRule(pattern);
  if (faulty === null) return pattern;
  throw refused(`the rule '${faulty.rule.name}', which ${faulty.fault}`);
}

/** The tokens of each rule, by its name. */
function rulesOf(source: string): ReadonlyMap<string, readonly string[]> {
  const tokens = tokensOf(source);
  const rules = new Map<string, string[]>();
  let own: string[] | undefined;
  for (const [at, each] of tokens.entries()) {
    if (tokens[at + 1] === '::=') {
      if (!/^[A-Za-z_]/.test(each)) throw refused(`${each} where the name of a rule is expected`);
      if (rules.has(each)) throw refused(`two rules '${each}'`);
      own = [];
      rules.set(each, own);
    } else if (each !== '::=') {
      if (own === undefined) throw refused(`${each} before the first rule`);
      own.push(each);
    }
  }
  return rules;
}

function tokensOf(source: string): readonly string[] {
  const tokens: string[] = [];
  const skip = (at: number): number => {
    blanks.lastIndex = at;
    blanks.test(source);
    return blanks.lastIndex;
  };
  for (let at = skip(0); at < source.length; at = skip(token.lastIndex)) {
    token.lastIndex = at;
    const [found] = token.exec(source) ?? [];
    if (found === undefined) throw refused(JSON.stringify(source.slice(at, at + 10)));
    tokens.push(found);
  }
  return tokens;
}

/** The tokens of a rule, and how many of them have been read. */
interface Cursor {
  readonly tokens: readonly string[];
  at: number;
}

class GrammarReader {
  readonly #sources: ReadonlyMap<string, readonly string[]>;
  readonly #rules = new Map<string, Rule>();
  #parts = 0;
  #depth = 0;

  constructor(sources: ReadonlyMap<string, readonly string[]>) {
    this.#sources = sources;
  }

  rule(name: string): Pattern {
    const known = this.#rules.get(name);
    if (known !== undefined) return { kind: 'rule', rule: known };
    const tokens = this.#sources.get(name);
    if (tokens === undefined) throw refused(`no rule '${name}'`);
    // It may contain itself.
    const rule: Rule = { name, pattern: sequence() };
    this.#rules.set(name, rule);
    const cursor = { tokens, at: 0 };
    rule.pattern = this.#options(cursor);
    if (cursor.at === tokens.length) return { kind: 'rule', rule };
    throw refused(`${tokens[cursor.at] ?? ''} in the rule '${name}'`);
  }

  #options(cursor: Cursor): Pattern {
    if (++this.#depth > MAX_DEPTH) throw refused('rules and groups that are too deep');
    const options = [this.#sequence(cursor)];
    while (cursor.tokens[cursor.at] === '|') {
      cursor.at++;
      options.push(this.#sequence(cursor));
    }
    this.#depth--;
    return choice(options);
  }

  #sequence(cursor: Cursor): Pattern {
    const parts: Pattern[] = [];
    for (;;) {
      const next = cursor.tokens[cursor.at];
      if (next === undefined || next === '|' || next === ')') return sequence(...parts);
      cursor.at++;
      parts.push(repeated(this.#one(next, cursor), cursor));
    }
  }

  #one(next: string, cursor: Cursor): Pattern {
    if (++this.#parts > MAX_PARTS) throw refused(`more than ${MAX_PARTS} parts`);
    switch (next.charAt(0)) {
      case '"':
        return literal(textOf(next));
      case '[':
        return patternOfExpression(next);
      case '.':
        return except([]);
      case '(': {
        const inner = this.#options(cursor);
        if (cursor.tokens[cursor.at++] !== ')') throw refused('a group that does not end');
        return inner;
      }
      case '*':
      case '+':
      case '?':
      case '{':
        throw refused(`${next} where something to repeat is expected`);
      default:
        return this.rule(next);
    }
  }
}

function repeated(part: Pattern, cursor: Cursor): Pattern {
  const next = cursor.tokens[cursor.at];
  const [least, most] = limitsOf(next);
  if (least === undefined || most === undefined) return part;
  cursor.at++;
  if (most >= least && least <= MAX_REPEATS && (most <= MAX_REPEATS || most === Infinity)) {
    return repeat(part, least, most);
  }
  throw refused(`${next}: numbers of repetitions from 0 to ${MAX_REPEATS}`);
}

function limitsOf(next: string | undefined): readonly [least?: number, most?: number] {
  if (next === '*') return [0, Infinity];
  if (next === '+') return [1, Infinity];
  if (next === '?') return [0, 1];
  const [, least, comma, most] = /^\{(\d+)(,?)(\d*)\}$/.exec(next ?? '') ?? [];
  if (least === undefined) return [];
  const limit = most === '' ? Infinity : Number(most);
  return [Number(least), comma === '' ? Number(least) : limit];
}

/** The text of a token in quotes, which has the escapes of JSON, and `\xHH`. */
function textOf(quoted: string): string {
  try {
    const json = quoted.replaceAll(/\\(?:x([\dA-Fa-f]{2})|.)/g, (all: string, code?: string) =>
      code === undefined ? all : `\\u00${code}`,
    );
    return String(JSON.parse(json));
  } catch {
    throw refused(`the text ${quoted}`);
  }
}

function refused(found: string): ConfigError {
  return new ConfigError({
    asked: 'an output of a grammar',
    found,
    todo: `Give rules in GBNF, such as ${ROOT} ::= "yes" | "(" ${ROOT} ")"`,
  });
}
