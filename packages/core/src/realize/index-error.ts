import type { Node } from '../graph/node.ts';
import { IndexError } from '../spec/errors.ts';
import type { RunFailure } from './execute.ts';

/**
 * Why a run failed, in the user's words where it was an index out of range: which operation it was, on
 * which line. `computed` are the nodes of the run's subgraph.
 */
export function causeOf(
  { cause, numbering, values }: RunFailure,
  computed: readonly Node[],
): unknown {
  if (!(cause instanceof IndexError)) return cause;
  const { index, element, size, updated } = cause.fields;
  const { graph, ids } = numbering;
  const failed = new Set(values);
  // What a node computes may be rounded to its dtype behind the op itself.
  const isFailed = (id: number): boolean =>
    failed.has(id) || (graph.values[id]?.inputs ?? []).some((input) => failed.has(input));
  const site = computed.find((node) => node.site !== null && isFailed(ids[node.slot] ?? -1))?.site;
  if (site === undefined || site === null || typeof size !== 'number') return cause;
  const { operation, line } = site;
  const isLabel = /crossEntropy$|^nllLoss$/i.test(operation);
  const [one, many] = isLabel ? ['label', 'labels'] : ['index', 'indices'];
  const spared = isLabel ? ', or ignoreIndex for what does not count' : '';
  return new IndexError(
    {
      asked: line === null ? operation : `${operation} at ${line}`,
      found: `${one} ${String(index)} at element ${String(element)}, where ${many} go from 0 to ${size - 1}`,
      todo: `Use ${many} in that range${spared}`,
    },
    { operation, line, index, element, size, updated },
    { cause },
  );
}
