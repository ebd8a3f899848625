import { currentScope, within } from '../ambient.ts';
import type { SequencePart } from '../graph/sequence-part.ts';

/** Inside `body`, the tokens of forward passes are a part of a longer sequence. Throws ConfigError for a promise. */
export function inSequencePart<T>(part: SequencePart, body: () => T): T {
  return within('a forward pass', { sequencePart: part }, body);
}

/** Forward passes inside `body` have whole sequences again. Throws ConfigError for a promise. */
export function outsideSequencePart<T>(body: () => T): T {
  return within('a forward pass', { sequencePart: null }, body);
}

/** The part of a sequence that the forward pass that is under way has. Null: it has whole sequences. */
export function currentSequencePart(): SequencePart | null {
  return currentScope().sequencePart;
}
