import type { Node } from '../../graph/node.ts';
import { IndexError } from '../../spec/errors.ts';
import type { RunFailure } from './run-failure.ts';

/**
 * The error of a run in which an index was out of range. It names the user's operation and line, if they are known.
 * `computed` are the nodes of the run's subgraph.
 */
export function indexError(
  cause: IndexError,
  { numbering, values }: RunFailure,
  computed: readonly Node[],
): IndexError {
  const { index, element, size, updated } = cause.fields;
  const { graph, ids } = numbering;
  const failed = new Set(values);
  // The value of a node may be a cast of the op that failed, so the inputs of a value are looked at, too.
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
