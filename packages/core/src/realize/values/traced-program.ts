import { placeOf } from '../../graph/call-site.ts';
import type { Node } from '../../graph/node.ts';
import { ops } from '../../graph/ops/ops.ts';
import type { Instruction, Program } from '../../spec/backend.ts';
import type { ValueType } from '../../spec/dtype.ts';
import { ConfigError, LayoutError } from '../../spec/errors.ts';
import { collect, type Subgraph } from '../collect/collect.ts';
import { type ComputeLimits, expand } from './expand.ts';
import { rowCountsOf } from './row-symbols.ts';
import { isCompute, numberValues } from './values.ts';

/** A program without updates. Unlike those of backends, it may have an output twice. */
export interface TracedProgram extends Pick<Program, 'inputs' | 'instructions' | 'outputs'> {
  /** The leaves with the values of the inputs, in their order. */
  readonly leaves: readonly Node[];
}

/**
 * Returns the program that computes these values from the leaves of the graph, in the ops that `limits` takes. Nothing
 * is computed. Throws LayoutError for values that need other ranks or a store of pages, and ConfigError for those that
 * need a tensor which is updated in place, or have numbers of rows that only a run knows.
 */
export function traceProgram(roots: readonly Node[], limits: ComputeLimits): TracedProgram {
  const subgraph = collect(roots);
  requireTraceable(subgraph);
  const { graph } = numberValues(expand(subgraph, roots, limits));
  const { values, leafCount } = graph;
  return {
    inputs: values.slice(0, leafCount).map(({ shape, dtype }): ValueType => ({ shape, dtype })),
    instructions: values.slice(leafCount).map((value): Instruction => {
      if (isCompute(value)) return value;
      throw new RangeError(`${value.op} in a program of one rank`);
    }),
    outputs: graph.roots,
    leaves: subgraph.leaves,
  };
}

function requireTraceable(subgraph: Subgraph): void {
  for (const { op, params, site } of subgraph.computed) {
    if (op === 'assign') {
      throw new ConfigError(
        {
          asked: `a program of ${op}${placeOf(site)}`,
          found: 'it updates a tensor in place',
          todo: 'Call the model with eval(), and let it return new tensors',
        },
        { op },
      );
    }
    const isOfOneRank = 'size' in params && params.size === 1 && ops[op].isIdentityForOneRank;
    const { by } = ops[op];
    if ((by !== 'group' && by !== 'store') || op === 'reinterpret' || isOfOneRank) continue;
    throw new LayoutError(
      {
        asked: `a program of ${op}${placeOf(site)}`,
        found:
          by === 'group' ? 'it needs other ranks' : 'it moves values to or from a store of pages',
        todo: 'Load the checkpoint into the plain model on one rank, and trace that',
      },
      { op },
    );
  }
  const [rows] = rowCountsOf(subgraph);
  if (rows === undefined) return;
  const { op, site } = rows.count;
  throw new ConfigError(
    {
      asked: `a program with the number of rows that ${op}${placeOf(site)} counts`,
      found: 'only a run knows this number, so it does not follow from the sizes of the inputs',
      todo: 'Compute with all rows, and with zeros in the place of those that do not count',
    },
    { op },
  );
}
