import { currentScope, within } from '../ambient.ts';
import type { SequencePart } from '../graph/sequence-part.ts';
import { Tensor } from '../tensor/tensor.ts';

/** Inside `body`, the tokens of forward passes are a part of a longer sequence. Throws ConfigError for a promise. */
export function inSequencePart<T>(part: SequencePart, body: () => T): T {
  return within('a forward pass', { sequencePart: part }, body);
}

/** Forward passes inside `body` have whole sequences again. Throws ConfigError for a promise. */
export function outsideSequencePart<T>(body: () => T): T {
  return within('a forward pass', { sequencePart: null }, body);
}

/**
 * Collects a dim of tokens of all parts of the sequence, in its order, with padding last. Outside of parts, it is the value
 * itself. Shape: [.., T, ..] -> [.., places, ..].
 */
export function gatherSequence(x: Tensor, dim: number): Tensor {
  const part = currentScope().sequencePart;
  return part === null ? x : new Tensor(part.gather(x.node, dim));
}

/**
 * Sums what each part of the sequence has, such as a number of tokens. It has no gradient. Outside of parts, it is the value itself.
 * Shape: x -> the same.
 */
export function sumOverSequence(x: Tensor): Tensor {
  const part = currentScope().sequencePart;
  return part === null ? x.detach() : new Tensor(part.sum(x.node));
}
