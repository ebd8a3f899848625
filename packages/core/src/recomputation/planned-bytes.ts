import { placeLifetimes } from '../base/place-lifetimes.ts';
import type { Node } from '../graph/node.ts';
import { ops } from '../graph/ops/ops.ts';
import { elementCount } from '../base/shape.ts';
import { collect, type Subgraph } from '../realize/collect/collect.ts';
import { smallValues } from '../realize/pending/small-values.ts';
import { takeConcats } from '../realize/segments/concats-in-place.ts';
import { mapMemory } from '../realize/segments/memory-map.ts';
import { segment } from '../realize/segments/segment.ts';
import { Sources } from '../realize/segments/sources.ts';
import { expand } from '../realize/values/expand.ts';
import { inputsOf, Marks, programOf, withCheapInputs } from '../realize/plan/execution-plan.ts';
import { byteLengthOf, isCompute, numberValues } from '../realize/values/values.ts';
import { dtypes } from '../spec/dtype.ts';
import type { Session } from '../realize/session.ts';
import { ConfigError, TensorStateError } from '../spec/errors.ts';
import type { Backend, Program } from '../spec/backend.ts';

/**
 * The bytes that a run which computes these nodes would take on the device, besides what lies there: its results, what
 * passes from one program to another, inputs, and the temporary values of the program that needs most for them. It makes the plan of the
 * run, but compiles nothing.
 */
export function plannedBytes(
  nodes: Iterable<Node>,
  { backend, mesh }: Pick<Session, 'backend' | 'mesh'>,
): number {
  const roots = [...new Set(nodes)].filter(({ value }) => value === null);
  // The run computes the loss, too, which the program has made and whose gradients need not read it.
  const subgraph = collectHere(roots);
  if (subgraph.computed.some(({ rowCount }) => rowCount !== null)) {
    throw new ConfigError({
      asked: 'an activationMemoryBudget for a pass whose number of rows only a run knows',
      found: 'no plan that says what it takes before it runs',
      todo: 'Pass another policy to nn.checkpoint, such as nn.keepProducts',
    });
  }
  const outputs = [...roots, ...subgraph.taken];
  const { graph } = numberValues(expand(subgraph, outputs, backend.limits));
  const sources = new Sources(graph);
  const { alignment, bufferBytes } = backend.limits;
  const varies = (): boolean => false;
  const { draft, concats } = takeConcats(graph, segment(graph, sources), {
    alignment,
    sources,
    varies,
    isCompute,
    byteLengthOf,
  });
  const map = { alignment, bufferBytes, sources, arriving: new Map<number, number>() };
  // Ranks collect gradients in buckets, whose memory is taken when the first of them is computed. So nothing else lies
  // where later gradients of a bucket will. A result whose size varies shares its memory with nothing, either.
  const hasBuckets = mesh.axes.some(({ size }) => size > 1);
  const memory = mapMemory(graph, draft, { ...map, varies: () => hasBuckets, concats });
  const marks = new Marks(graph.values.length);
  let temporaryBytes = 0;
  for (const { kind, values } of draft) {
    if (kind !== 'compute') continue;
    const members = withCheapInputs(graph, values, sources, marks);
    const program = programOf(graph, {
      inputs: inputsOf(graph, members, [], marks),
      members,
      outputs: values.filter((id) => memory.places[id] !== undefined),
      updates: [],
    });
    temporaryBytes = Math.max(temporaryBytes, temporaryBytesOf(program, backend));
  }
  const inputs = subgraph.leaves.filter(({ resident, value }) => {
    return !resident && value?.kind === 'host';
  });
  return (
    temporaryBytes +
    memory.scratchBuffers.reduce((sum, bytes) => sum + bytes, 0) +
    memory.allocations.reduce((sum, { byteLength }) => sum + byteLength, 0) +
    inputs.reduce((sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes, 0)
  );
}

/** Collects what a run computes. Throws ConfigError if this rank cannot, as in a pipeline, where others compute a part of it. */
function collectHere(roots: readonly Node[]): Subgraph {
  try {
    return collect(roots, { offered: smallValues() });
  } catch (cause) {
    if (!(cause instanceof TensorStateError)) throw cause;
    throw new ConfigError(
      {
        asked: 'an activationMemoryBudget for a pass that this rank cannot compute by itself',
        found: cause.message,
        todo: 'Change what made its values unavailable. If that is a pipeline: in a pipeline, budgets cannot choose; pass another policy to nn.checkpoint, such as nn.keepProducts',
      },
      {},
      { cause },
    );
  }
}

/** The bytes of the temporary values of a program: what the device says, or those of all values that it computes. */
function temporaryBytesOf(program: Program, backend: Backend): number {
  return backend.temporaryBytes?.(program) ?? bytesOfValues(program, backend.limits.alignment);
}

function bytesOfValues({ inputs, instructions, outputs }: Program, alignmentBytes: number): number {
  const given = new Set(outputs);
  const roots = [...inputs.keys()];
  const lasts = new Map<number, number>();
  for (const [index, { op, inputs: read }] of instructions.entries()) {
    const id = inputs.length + index;
    roots.push(ops[op].memory === 'input' ? (roots[read[0] ?? -1] ?? id) : id);
    for (const input of read) lasts.set(roots[input] ?? input, index);
  }
  const lifetimes = [...instructions.entries()].flatMap(([index, { op, shape, dtype }]) => {
    const id = inputs.length + index;
    if (given.has(id) || ops[op].memory !== 'own') return [];
    const byteLength = elementCount(shape) * dtypes[dtype].bytes;
    return [{ id, byteLength, first: index, last: lasts.get(id) ?? index }];
  });
  return placeLifetimes(lifetimes, { alignmentBytes }).pageBytes[0] ?? 0;
}
