import { ConfigError, DataError } from '@shardwise/core/extend';
import type { CharacterRange, Pattern, Rule } from './pattern.ts';

/*
 * Patterns come from clients. These limits are those of the places of a pattern, of the places that are looked at for
 * all texts and for one token, during which nobody else is answered, and of those that are kept.
 */
const MAX_PLACES = 20_000;
const MAX_WORK = 5e8;
const MAX_WORK_OF_TOKEN = 2e7;
/** To join a place to a state takes this many times as long as to look at one. */
const WORK_OF_JOINING = 20;
const MAX_KEPT = 5e6;
/** The most places where one text may be. */
const MAX_REACHED = 20_000;

/** Where a text may be: at a place of a rule, and behind that rule at another one. */
interface Position {
  readonly number: number;
  readonly place: number;
  /** Null outside of all rules. */
  readonly behind: Position | null;
}

/** What may follow the beginning of a text. */
export interface AutomatonState {
  /** Whether the text may end here. */
  readonly accepts: boolean;
  /** Whether no character may follow. */
  readonly isEnd: boolean;
  /** Where the text may be in the pattern. */
  readonly positions: readonly Position[];
  /** What is known to follow by a character. Null: it may not follow. */
  readonly next: Map<number, AutomatonState | null>;
}

/**
 * Follows texts of a pattern character by character. States of the pattern (Thompson 1968) are joined to those of a
 * deterministic automaton when a text reaches them. Where rules contain themselves, a state of the pattern has the
 * places behind the rules that are open, as a pushdown automaton has.
 */
export class Automaton {
  /** For each place: where a character of the ranges leads, and where one comes without a character. */
  readonly #edges: { readonly ranges: readonly CharacterRange[]; readonly to: number }[][] = [];
  readonly #free: number[][] = [];
  /** For each place: the rules that a text may begin there, and where it goes on behind them. */
  readonly #calls: { readonly start: number; readonly to: number }[][] = [];
  /** Where the rules begin. */
  readonly #starts = new Map<Rule, number>();
  /** The places where a rule ends. */
  readonly #ends = new Set<number>();
  readonly #positions = new Map<string, Position>();
  readonly #known = new Map<string, AutomatonState>();
  readonly #end: number;
  #work = 0;
  #mostWork = MAX_WORK_OF_TOKEN;
  #kept = 0;
  readonly start: AutomatonState;

  /** Throws ConfigError for a pattern with too many states. */
  constructor(pattern: Pattern) {
    const first = this.#place();
    this.#end = this.#add(pattern, first);
    this.start = this.#stateOf([this.#position(first, null)]);
  }

  /** Says that what is looked at from now on is for another token. */
  beginToken(): void {
    this.#mostWork = Math.min(MAX_WORK, this.#work + MAX_WORK_OF_TOKEN);
  }

  /** The state behind one more character. Null if it may not follow. Throws DataError if this takes too long. */
  next(state: AutomatonState, codePoint: number): AutomatonState | null {
    const known = state.next.get(codePoint);
    if (known !== undefined) return known;
    this.#work += state.positions.length;
    if (this.#work > this.#mostWork || this.#kept > MAX_KEPT) throw tooSlow();
    const reached = state.positions.flatMap(({ place, behind }) =>
      (this.#edges[place] ?? [])
        .filter(({ ranges }) => ranges.some((r) => r.first <= codePoint && codePoint <= r.last))
        .map(({ to }) => this.#position(to, behind)),
    );
    const next = reached.length === 0 ? null : this.#stateOf(reached);
    state.next.set(codePoint, next);
    return next;
  }

  #stateOf(positions: readonly Position[]): AutomatonState {
    const reached = new Set(positions);
    for (const { place, behind } of reached) {
      for (const to of this.#free[place] ?? []) reached.add(this.#position(to, behind));
      for (const { start, to } of this.#calls[place] ?? []) {
        reached.add(this.#position(start, this.#position(to, behind)));
      }
      if (behind !== null && this.#ends.has(place)) reached.add(behind);
      if (reached.size > MAX_REACHED) throw tooSlow();
    }
    this.#work += WORK_OF_JOINING * reached.size;
    const all = [...reached].toSorted((a, b) => a.number - b.number);
    const key = all.map(({ number }) => number).join();
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const made: AutomatonState = {
      positions: all,
      accepts: all.some(({ place, behind }) => place === this.#end && behind === null),
      isEnd: all.every(({ place }) => (this.#edges[place] ?? []).length === 0),
      next: new Map(),
    };
    this.#known.set(key, made);
    this.#kept += all.length;
    return made;
  }

  #position(place: number, behind: Position | null): Position {
    const key = behind === null ? `${place}` : `${place} ${behind.number}`;
    const known = this.#positions.get(key);
    if (known !== undefined) return known;
    const made = { number: this.#positions.size, place, behind };
    this.#positions.set(key, made);
    return made;
  }

  #place(): number {
    if (this.#edges.length >= MAX_PLACES) throw tooLarge();
    this.#free.push([]);
    this.#calls.push([]);
    return this.#edges.push([]) - 1;
  }

  /** Adds a pattern that begins at a place. Returns where it ends. */
  #add(pattern: Pattern, from: number): number {
    switch (pattern.kind) {
      case 'character': {
        const to = this.#place();
        if (pattern.ranges.length > 0) this.#edges[from]?.push({ ranges: pattern.ranges, to });
        return to;
      }
      case 'sequence':
        return pattern.parts.reduce((place, part) => this.#add(part, place), from);
      case 'choice': {
        const ends = pattern.options.map((each) => {
          const start = this.#place();
          this.#free[from]?.push(start);
          return this.#add(each, start);
        });
        const end = this.#place();
        for (const each of ends) this.#free[each]?.push(end);
        return end;
      }
      case 'repeat':
        return this.#repeat(pattern, from);
      case 'rule': {
        const to = this.#place();
        this.#calls[from]?.push({ start: this.#startOf(pattern.rule), to });
        return to;
      }
      default:
        return pattern satisfies never;
    }
  }

  #startOf(rule: Rule): number {
    const known = this.#starts.get(rule);
    if (known !== undefined) return known;
    const start = this.#place();
    // The rule may contain itself.
    this.#starts.set(rule, start);
    this.#ends.add(this.#add(rule.pattern, start));
    return start;
  }

  #repeat({ part, least, most }: Extract<Pattern, { kind: 'repeat' }>, from: number): number {
    let place = from;
    for (let count = 0; count < least; count++) place = this.#add(part, place);
    if (most === Number.POSITIVE_INFINITY) {
      // A place of its own, to which nothing behind the loop leads back.
      const loop = this.#place();
      this.#free[place]?.push(loop);
      this.#free[this.#add(part, loop)]?.push(loop);
      const end = this.#place();
      this.#free[loop]?.push(end);
      return end;
    }
    const ends: number[] = [place];
    for (let count = least; count < most; count++) ends.push((place = this.#add(part, place)));
    const end = this.#place();
    for (const each of ends) this.#free[each]?.push(end);
    return end;
  }
}

function tooLarge(): ConfigError {
  return new ConfigError({
    asked: 'an output of a certain form',
    found: `a form of more than ${MAX_PLACES} characters, written out`,
    todo: 'Give smaller limits of lengths, or fewer parts',
  });
}

function tooSlow(): DataError {
  return new DataError({
    asked: 'the next token of an output of a certain form',
    found: 'a form with too many ways to continue',
    todo: 'Give a form whose parts begin with other characters, and smaller limits of lengths',
  });
}
