import type { CapturedStack } from '../../base/stack.ts';
import { localOf, type Node } from '../../graph/node.ts';
import { currentScope, rankState, within } from '../../ambient.ts';
import { elementCount } from '../../base/shape.ts';

/**
 * Values of at most this many elements that a program made, such as losses and metrics, are computed with the step
 * whose updates would make them unreadable.
 */
export const SMALL_ELEMENTS = 256;

/** The most small values that are remembered. If a program builds more without a step, the oldest are forgotten. */
const MAX_VALUES = 1024;

/** Remembers a value that the program made, if it is small. No step makes a value without inputs unreadable. */
export function noteValue(whole: Node): void {
  const node = localOf(whole);
  if (currentScope().isInLibrary || node.value !== null || node.op === 'assign') return;
  if (node.inputs.length === 0) return;
  // Of uneven parts, some ranks would have a small one and others not, and all of them must be able to read the value.
  if (node.rowCount !== null || elementCount(whole.shape) > SMALL_ELEMENTS) return;
  const { smallValues: values } = rankState;
  values.add(node);
  const [oldest] = values;
  if (values.size > MAX_VALUES && oldest !== undefined) values.delete(oldest);
}

/**
 * Remembers only the result of `body`. The program cannot read the other nodes that `body` builds. No code of the user
 * runs in `body`, so all its nodes have the line of the call.
 */
export function composed<T extends { readonly node: Node }>(body: () => T): T {
  const result = withoutValues(body, currentScope().stack ?? {});
  noteValue(result.node);
  return result;
}

/** Does what composed does, for a body with several results, and for one in which modules of the user may run. */
export function composedAll<T>(
  body: () => T,
  resultsOf: (made: T) => readonly { readonly node: Node }[],
): T {
  const made = withoutValues(body);
  for (const { node } of resultsOf(made)) noteValue(node);
  return made;
}

/**
 * Nodes that `body` builds do not count as the program's, so no step computes them unless something asks for
 * them. `stack` keeps the stack that all of them have. Throws ConfigError for a body that returns a promise.
 */
export function withoutValues<T>(body: () => T, stack?: CapturedStack): T {
  return within('a function of the library', { isInLibrary: true, stack }, body);
}

export function smallValues(): ReadonlySet<Node> {
  return rankState.smallValues;
}

/** Forgets values that have been computed, or that can no longer be read. */
export function forgetValues(nodes: Iterable<Node>): void {
  for (const node of nodes) rankState.smallValues.delete(node);
}
