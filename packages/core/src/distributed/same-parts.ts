import { formatShape } from '../base/shape.ts';
import { CallSite, placeOf } from '../graph/call-site.ts';
import { collectiveIdentity } from '../graph/collective-identity.ts';
import { inputNode } from '../graph/create-node.ts';
import { hashOf } from '../hash.ts';
import { formatLayout } from '../layout/layout.ts';
import { currentSession } from '../rank.ts';
import { dtypeNames } from '../spec/dtype.ts';
import { CollectiveMismatchError, TensorStateError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { MeshAxis } from '../spec/mesh.ts';
import { zeros } from '../tensor/create.ts';
import { Tensor } from '../tensor/tensor.ts';

/**
 * Returns the part, for computing with it, and has the ranks of the mesh compare the dtypes, shapes and layouts of their
 * parts before anything else is computed: a message of a few numbers over each axis. If they differ, all that is
 * computed from the result rejects with CollectiveMismatchError, on every rank. Without other ranks, this is the part
 * itself. Shape: N -> N.
 */
export function samePartsOnly(local: Tensor, layout: Layout): Tensor {
  const session = currentSession();
  const axes = session.mesh.axes.filter(({ size }) => size > 1);
  if (axes.length === 0) return local;
  const site = new CallSite('fromLocal');
  const verdict = inputNode([], 'bool', { kind: 'failed', error: notCompared() }, false);
  const own = [dtypeNames.indexOf(local.dtype), hashOf(formatLayout(layout)), ...local.shape];
  session.enqueue(async () => {
    try {
      const different = firstDifferent(await wordsOfAll(own, axes), own.length);
      if (different !== null) throw differentParts(site, layout, axes, different);
      verdict.value = { kind: 'host', bytes: Uint8Array.of(1) };
    } catch (error) {
      verdict.value = { kind: 'failed', error };
    }
  });
  return new Tensor(verdict).where(local, zeros([], local.dtype));
}

/** Returns the words of all ranks, those of the first rank first. The last axis is the innermost one. */
async function wordsOfAll(own: readonly number[], axes: readonly MeshAxis[]): Promise<Int32Array> {
  let words = Int32Array.from(own);
  for (const { name, size } of axes.toReversed()) {
    const all = new Int32Array(words.length * size);
    await currentSession()
      .mesh.group(name)
      .allGather(
        { bytes: new Uint8Array(words.buffer), dtype: 'i32' },
        { bytes: new Uint8Array(all.buffer), dtype: 'i32' },
        { identity: collectiveIdentity('the shapes of the parts of fromLocal') },
      );
    words = all;
  }
  return words;
}

interface Difference {
  readonly index: number;
  readonly first: Int32Array;
  readonly other: Int32Array;
}

/** Returns the words of the first rank, and of the first one that differs from it. Null if all are equal. */
function firstDifferent(all: Int32Array, count: number): Difference | null {
  const at = all.findIndex((word, index) => word !== all[index % count]);
  if (at < 0) return null;
  const index = Math.floor(at / count);
  return {
    index,
    first: all.slice(0, count),
    other: all.slice(index * count, (index + 1) * count),
  };
}

function differentParts(
  site: CallSite,
  layout: Layout,
  axes: readonly MeshAxis[],
  { index, first, other }: Difference,
): CollectiveMismatchError {
  const [place, origin] = [placeAt(index, axes), placeAt(0, axes)];
  const isOfLayout = first[1] !== other[1];
  const [has, hasOther] = [describe(first), describe(other)];
  return new CollectiveMismatchError(
    {
      asked: `fromLocal${placeOf(site)}, without the shape of the whole, as ${formatLayout(layout)}`,
      found: `${origin} has a part ${has}, and ${place} has ${isOfLayout ? 'another layout, and ' : ''}a part ${hasOther}`,
      todo: 'Give all ranks equal parts and one layout, or give the shape of the whole: fromLocal(part, layout, shape)',
    },
    { rank: index, parts: [has, hasOther] },
  );
}

/** Returns the place of a rank on the axes, such as `rank 1 of 'dp', 0 of 'tp'`. */
function placeAt(index: number, axes: readonly MeshAxis[]): string {
  let rest = index;
  const places = axes.toReversed().map(({ name, size }) => {
    const rank = rest % size;
    rest = Math.floor(rest / size);
    return `${rank} of '${name}'`;
  });
  return `rank ${places.toReversed().join(', ')}`;
}

function describe([dtype = 0, , ...shape]: Int32Array): string {
  return `${dtypeNames[dtype]} ${formatShape(shape)}`;
}

function notCompared(): TensorStateError {
  return new TensorStateError({
    asked: "a distributed tensor that was made of the ranks' parts",
    found: 'the ranks have not compared the shapes of their parts yet',
    todo: 'Await the value',
  });
}
