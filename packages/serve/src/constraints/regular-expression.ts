import { ConfigError } from '@shardwise/core/extend';
import { type CharacterRange, choice, except, type Pattern, repeat, sequence } from './pattern.ts';

const MAX_REPEATS = 1000;
const MAX_DEPTH = 100;

const range = (first: string, last: string): CharacterRange => ({
  first: first.codePointAt(0) ?? 0,
  last: last.codePointAt(0) ?? 0,
});
const digits = [range('0', '9')];
const words = [range('0', '9'), range('A', 'Z'), range('_', '_'), range('a', 'z')];
const spaces = [range('\t', '\r'), range(' ', ' ')];
const sets: ReadonlyMap<string, readonly CharacterRange[]> = new Map([
  ['d', digits],
  ['w', words],
  ['s', spaces],
]);
const controls: ReadonlyMap<string, string> = new Map([
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['f', '\f'],
  ['v', '\v'],
]);
const lineEnds = [range('\n', '\n'), range('\r', '\r')];

/**
 * The texts that a whole regular expression matches: characters, `.`, classes, `\d \w \s` and their opposites, groups,
 * `|`, `* + ?` and `{m,n}`. Throws ConfigError for what is no regular expression, and for what depends on more than the
 * characters themselves, such as references and looks ahead.
 */
export function patternOfExpression(source: string): Pattern {
  return new Parser(source).whole();
}

class Parser {
  readonly #source: string;
  readonly #characters: readonly string[];
  #at = 0;
  #depth = 0;

  constructor(source: string) {
    this.#source = source;
    this.#characters = Array.from(source);
  }

  whole(): Pattern {
    // The whole text must match in any case.
    this.#take('^');
    const pattern = this.#options(true);
    if (this.#at < this.#characters.length) throw this.#refused(`'${this.#peek()}'`);
    return pattern;
  }

  #options(isOutermost = false): Pattern {
    if (++this.#depth > MAX_DEPTH) throw this.#refused('groups that are too deep');
    const options = [this.#sequence(isOutermost)];
    while (this.#take('|')) options.push(this.#sequence(isOutermost));
    this.#depth--;
    const [only] = options;
    return options.length === 1 && only !== undefined ? only : choice(options);
  }

  #sequence(isOutermost: boolean): Pattern {
    const parts: Pattern[] = [];
    for (let next = this.#peek(); next !== undefined; next = this.#peek()) {
      if (next === '|' || next === ')') break;
      if (next === '$' && isOutermost && this.#at === this.#characters.length - 1) {
        this.#at++;
        break;
      }
      parts.push(this.#repeated(this.#one()));
    }
    return sequence(...parts);
  }

  #one(): Pattern {
    const next = this.#next();
    switch (next) {
      case '(': {
        if (this.#take('?') && !this.#take(':')) throw this.#refused('a group of a special kind');
        const inner = this.#options();
        if (!this.#take(')')) throw this.#refused('a group that does not end');
        return inner;
      }
      case '[':
        return this.#class();
      case '.':
        return except(lineEnds);
      case '\\':
        return { kind: 'character', ranges: this.#escaped() };
      case '*':
      case '+':
      case '?':
      case '{':
      case '^':
      case '$':
        throw this.#refused(`'${next}' where a character is expected`);
      default:
        return { kind: 'character', ranges: [range(next, next)] };
    }
  }

  #repeated(part: Pattern): Pattern {
    if (this.#take('*')) return this.#greedy(repeat(part, 0));
    if (this.#take('+')) return this.#greedy(repeat(part, 1));
    if (this.#take('?')) return this.#greedy(repeat(part, 0, 1));
    if (!this.#take('{')) return part;
    const least = this.#number();
    const most = this.#take(',') ? (this.#peek() === '}' ? Infinity : this.#number()) : least;
    if (!this.#take('}') || most < least) throw this.#refused('numbers of repetitions');
    return this.#greedy(repeat(part, least, most));
  }

  /** How much a match takes makes no difference where the whole text must match. */
  #greedy(pattern: Pattern): Pattern {
    this.#take('?');
    if (['*', '+', '{'].includes(this.#peek() ?? ''))
      throw this.#refused('a repetition of another');
    return pattern;
  }

  #number(): number {
    let text = '';
    while (/^\d$/.test(this.#peek() ?? '')) text += this.#next();
    const value = Number(text);
    if (text === '' || value > MAX_REPEATS) {
      throw this.#refused(`${text === '' ? 'no number' : text} of repetitions`);
    }
    return value;
  }

  #class(): Pattern {
    const isOpposite = this.#take('^');
    const ranges: CharacterRange[] = [];
    while (!this.#take(']')) {
      const own = this.#member();
      const [first] = own;
      const isRange = this.#peek() === '-' && this.#characters[this.#at + 1] !== ']';
      if (!isRange || first === undefined) {
        ranges.push(...own);
        continue;
      }
      this.#next();
      const [last] = this.#member();
      if (own.length > 1 || last === undefined || last.last < first.first) {
        throw this.#refused('a range of characters that is none');
      }
      ranges.push({ first: first.first, last: last.last });
    }
    if (ranges.length === 0) throw this.#refused('a class without characters');
    return isOpposite ? except(ranges) : { kind: 'character', ranges };
  }

  #member(): readonly CharacterRange[] {
    const next = this.#next();
    return next === '\\' ? this.#escaped() : [range(next, next)];
  }

  #escaped(): readonly CharacterRange[] {
    const next = this.#next();
    const set = sets.get(next.toLowerCase());
    if (set !== undefined) {
      const others = except(set);
      return next === next.toLowerCase() || others.kind !== 'character' ? set : others.ranges;
    }
    const control = controls.get(next);
    if (control !== undefined) return [range(control, control)];
    if (/^[\dA-Za-z]$/.test(next)) throw this.#refused(`'\\${next}'`);
    return [range(next, next)];
  }

  #peek(): string | undefined {
    return this.#characters[this.#at];
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }

  #next(): string {
    const next = this.#characters[this.#at++];
    if (next === undefined) throw this.#refused('its end where more is expected');
    return next;
  }

  #refused(found: string): ConfigError {
    return new ConfigError(
      {
        asked: `an output of the regular expression ${JSON.stringify(this.#source.slice(0, 200))}`,
        found: `${found} at character ${this.#at}`,
        todo: 'Use characters, classes, groups, | and repetitions',
      },
      { at: this.#at },
    );
  }
}
