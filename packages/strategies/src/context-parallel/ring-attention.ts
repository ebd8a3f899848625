import {
  attentionGradientsOfPart,
  attentionOfPart,
  customFunction,
  isGradEnabled,
  noGrad,
  type PartOfKeys,
  sendRecv,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import type { ContextMessages } from './context-messages.ts';
import { joinAttention, type JoinedAttention } from './join-attention.ts';
import { rangesInBlock } from './key-ranges.ts';
import type { Stretch } from './sequence-cut.ts';
import { takeStretches } from './stretches.ts';

/** Groups of ranks that pass blocks of keys and values on, each to the next one. */
export interface Ring {
  readonly axis: string;
  /** The rank of the axis to which each rank sends. */
  readonly destination: readonly number[];
  /** The number of groups. */
  readonly size: number;
  /** This rank's group. */
  readonly group: number;
  /** The places of the block with which a group begins. */
  readonly blockOf: (group: number) => readonly Stretch[];
  readonly messages: ContextMessages;
}

/** Attention of this rank's queries to the keys of all groups. */
export interface RingInputs {
  /** Shape: q [B, H, T, D], k [B, G, S, D], v [B, G, S, E]. */
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  /** The places that each query sees. Shape: i32 [B|1, T, 2]. */
  readonly ranges: Tensor;
  /** Added to the scores of all places, in the order of the sequence. Shape: [B|1, 1, 1, places]. */
  readonly mask: Tensor | null;
  readonly params: PartOfKeys['params'];
}

/**
 * Ring attention (Liu et al. 2023): each rank computes with the block of keys and values that it has, while the next one
 * travels to it. So it never has more than two blocks. The results of blocks are joined in f32, by the logarithms of
 * their sums. The backward pass keeps no blocks, and rings again: the gradients of a block travel one rank behind it, and
 * reach the rank of the block at the end. Shape: -> [B, H, T, E].
 */
export function ringAttention(inputs: RingInputs, ring: Ring): Tensor {
  const { q, k, v, ranges, mask } = inputs;
  noteMessages(inputs, ring);
  // Its operations have no gradients: the function below has one of its own, which reads the sums again.
  const { y, logSumExp } = noGrad(() => passForward(inputs, ring));
  const attention = customFunction({
    name: 'ring attention',
    forward: () => y.to(v.dtype),
    backward: (dy, { inputs: own, output }) => {
      const [ownQ = q, ownK = k, ownV = v, sums = logSumExp, ownRanges = ranges, ownMask = null] =
        own;
      const again = { ...inputs, q: ownQ, k: ownK, v: ownV, ranges: ownRanges, mask: ownMask };
      const gradients = passBackward(again, ring, { dy, y: output, logSumExp: sums });
      return own.map((_, index) => gradients[index] ?? null);
    },
  });
  return attention(q, k, v, logSumExp, ranges, ...(mask === null ? [] : [mask]));
}

function passForward(inputs: RingInputs, ring: Ring): JoinedAttention {
  let { k, v } = inputs;
  let joined: JoinedAttention | null = null;
  for (let hop = 0; hop < ring.size; hop++) {
    // The next block is sent before this one is computed with, so that it travels meanwhile.
    const next = hop + 1 < ring.size ? ([passOn(k, ring), passOn(v, ring)] as const) : null;
    joined = joinAttention(joined, attentionOfPart(partOf(inputs, ring, hop, k, v)));
    if (next !== null) [k, v] = next;
  }
  if (joined === null) throw new RangeError('a ring without ranks');
  return joined;
}

function passBackward(
  inputs: RingInputs,
  ring: Ring,
  { dy, y, logSumExp }: Readonly<Record<'dy' | 'y' | 'logSumExp', Tensor>>,
): readonly [dq: Tensor, dk: Tensor, dv: Tensor] {
  const delta = dy.to('f32').mul(y.to('f32')).sum(-1);
  let { k, v } = inputs;
  let dq: Tensor | null = null;
  /** Those of the block that the rank has at each hop, with those of the ranks that had it before. */
  const ofBlocks: BlockGradients[] = [];
  for (let hop = 0; hop < ring.size; hop++) {
    const next = hop + 1 < ring.size ? ([passOn(k, ring), passOn(v, ring)] as const) : null;
    const part = partOf(inputs, ring, hop, k, v);
    const gradients = attentionGradientsOfPart(part, { dy, logSumExp, delta });
    dq = sumOf(dq, gradients.dq);
    const received = hop < 2 ? undefined : ofBlocks.at(-1);
    const dk = sumOf(received?.dk ?? null, gradients.dk);
    const dv = sumOf(received?.dv ?? null, gradients.dv);
    // The rank's own block stays. After the last hop, the next rank is the one whose block it is.
    ofBlocks.push(hop === 0 ? { dk, dv } : { dk: passOn(dk, ring), dv: passOn(dv, ring) });
    if (next !== null) [k, v] = next;
  }
  const [own, received] = [ofBlocks[0], ofBlocks.at(-1)];
  if (dq === null || own === undefined || received === undefined) {
    throw new RangeError('a ring without ranks');
  }
  return [
    dq.to(inputs.q.dtype),
    own.dk.add(received.dk).to(inputs.k.dtype),
    own.dv.add(received.dv).to(inputs.v.dtype),
  ];
}

/** The gradients of a block of keys and values. */
interface BlockGradients {
  readonly dk: Tensor;
  readonly dv: Tensor;
}

/** A sum in f32. */
function sumOf(before: Tensor | null, x: Tensor): Tensor {
  return before === null ? x.to('f32') : before.add(x.to('f32'));
}

function noteMessages({ q, k, v }: RingInputs, { axis, size, messages }: Ring): void {
  const trains = isGradEnabled() && [q, k, v].some(({ requiresGrad }) => requiresGrad);
  for (let hop = 1; hop < size; hop++) {
    const becomes = `hop ${hop}`;
    for (const [what, { numel: elements, dtype }] of [
      ['keys', k],
      ['values', v],
    ] as const) {
      const common = { becomes, axis, elements };
      const backward = trains ? 'sendRecv' : null;
      messages.ofAttention({ ...common, what, dtype, forward: 'sendRecv', backward });
      messages.ofAttention({ ...common, what: `gradients of ${what}`, dtype: 'f32', backward });
    }
  }
}

/** What a rank computes after `hop` blocks have been passed on. */
function partOf(
  { q, ranges, mask, params }: RingInputs,
  { size, group, blockOf }: Ring,
  hop: number,
  k: Tensor,
  v: Tensor,
): PartOfKeys {
  const block = blockOf((group - hop + size) % size);
  return {
    q,
    k,
    v,
    ranges: rangesInBlock(ranges, block),
    mask: mask && takeStretches(mask, -1, block),
    params,
  };
}

function passOn(x: Tensor, { axis, destination }: Ring): Tensor {
  return withCollectiveName(`the ring of attention over '${axis}'`, () =>
    sendRecv(x, axis, destination),
  );
}
