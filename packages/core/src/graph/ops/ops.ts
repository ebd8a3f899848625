import type { CollectiveOp, CompositeOp, Op, OpParams, TransferOp } from '../../spec/op.ts';
import type { AxisTypes } from '../axis-types.ts';
import { castOps, createNode } from '../create-node.ts';
import type { Node } from '../node.ts';
import type { CompositeEntries, OpEntries, SimpleEntries } from '../op-entry.ts';
import { activationOps } from './activations.ts';
import { attentionOps } from './attention.ts';
import { blockedOps } from './blocked.ts';
import { collectiveOps } from './collective.ts';
import { contractOps } from './contract.ts';
import { elementwiseOps } from './elementwise.ts';
import { graphOps } from './graph-ops.ts';
import { groupedOps } from './grouped.ts';
import { indexOps } from './index-ops.ts';
import { leafOps } from './leaf.ts';
import { movementOps } from './movement.ts';
import { normalizeOps } from './normalize.ts';
import { reduceOps } from './reduce.ts';
import { transferOps } from './transfer.ts';

const composites: CompositeEntries<CompositeOp> = {
  ...activationOps,
  ...normalizeOps,
  ...groupedOps,
  ...blockedOps,
  ...attentionOps,
};

const others: SimpleEntries<Exclude<Op, CompositeOp>> = {
  ...leafOps,
  ...elementwiseOps,
  ...castOps,
  ...movementOps,
  ...reduceOps,
  ...contractOps,
  ...indexOps,
  ...collectiveOps,
  ...transferOps,
  ...graphOps,
};

/** The entries of all ops. An op without an entry does not compile, and neither does an entry without a field. */
export const ops: OpEntries<Op> = { ...others, ...composites };

/** Makes a node of an op that is known by its name. Throws what createNode throws. */
export function createNodeOf<K extends Op>(
  op: K,
  params: OpParams[K],
  inputs: readonly Node[],
  axisTypes?: AxisTypes | null,
): Node {
  return createNode(ops[op], op, params, inputs, axisTypes);
}

/** Builds a composite from others, with `inputs` in the place of a node's own inputs. */
export function decompose<K extends CompositeOp>(
  op: K,
  params: OpParams[K],
  inputs: readonly Node[],
): Node {
  return composites[op].decompose(params, ...inputs);
}

/** Whether a process group carries out an op. Some of these ops send nothing. */
export function isCollectiveOp(op: Op): op is CollectiveOp {
  return ops[op].by === 'group';
}

export function isTransferOp(op: Op): op is TransferOp {
  return ops[op].by === 'store';
}

export function isCompositeOp(op: Op): op is CompositeOp {
  return ops[op].by === 'composite';
}
