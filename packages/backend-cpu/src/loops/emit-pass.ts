import { mask, r13, rax, rcx, rdx, type Vector, zmm } from '../machine-code/operands.ts';
import { emitBody, type Body } from './emit-body.ts';
import { LaneGraph } from './lane-graph.ts';
import type { Fold } from '../wasm/rows/rows.ts';
import type { LanePass } from './lane-loop.ts';
import { LANES, type LoopFrame } from './loop-frame.ts';
import { keepUniform, varyingNodes } from './uniform.ts';

/** Unrolling saves loop overhead only; long bodies overlap by out-of-order execution anyway. */
const UNROLLED_NODES = 24;
const MAX_UNROLL = 4;

/** Writes one walk over the columns of a row: several vectors at once, then single ones, then what is left under a mask. */
export function emitPass(frame: LoopFrame, pass: LanePass): void {
  const { code } = frame;
  const graph = new LaneGraph();
  const stores = pass.stores.map(({ operand, value }) => ({ operand, node: graph.add(value) }));
  const folds = pass.folds.map(({ fold, term }) => ({ fold, node: graph.add(term) }));
  const varying = varyingNodes(frame, graph);
  const homes = keepUniform(frame, graph, varying, [...stores, ...folds]);
  const unroll = unrollOf(folds.length, graph.nodes.length);
  const sums = folds.map((_, fold) => accumulators(fold, unroll));
  const body: Body = { frame, graph, varying, homes, stores, folds, sums };

  folds.forEach(({ fold }, index) => clear(frame, fold, sums[index] ?? []));
  code.xor(rcx, rcx);
  for (const vectors of new Set([unroll, 1])) eachVectors(body, vectors);
  const end = code.label();
  code.mov(rax, rdx);
  code.sub(rax, rcx);
  code.jumpIf('equal', end);
  code.mov(r13, -1);
  code.bzhi(r13, r13, rax);
  code.kmovd(mask(7), r13);
  emitBody(body, 1, mask(7));
  code.place(end);
  pass.folds.forEach(({ fold, input }, index) => {
    const place = frame.slots.take();
    code.vstore('vmovups', place, across(frame, fold, sums[index] ?? []));
    frame.kept.set(input, place);
  });
}

/** Sums in several vectors at once: additions take longer than they are apart. */
function unrollOf(folds: number, nodes: number): number {
  if (folds > 0) return folds > 1 ? 2 : MAX_UNROLL;
  const fitting = 2 ** Math.floor(Math.log2(Math.max(UNROLLED_NODES / nodes, 1)));
  return Math.min(fitting, MAX_UNROLL);
}

/** The last registers, from which the body keeps its hands. */
function accumulators(fold: number, unroll: number): readonly Vector[] {
  return Array.from({ length: unroll }, (_, vector) => zmm(31 - fold * unroll - vector));
}

function eachVectors(body: Body, vectors: number): void {
  const { code } = body.frame;
  const [next, end] = [code.label(), code.label()];
  code.mov(r13, rdx);
  code.sub(r13, LANES * vectors);
  code.cmp(rcx, r13);
  code.jumpIf('greater', end);
  code.entry(next);
  emitBody(body, vectors);
  code.add(rcx, LANES * vectors);
  code.cmp(r13, rcx);
  code.jumpIf('notLess', next);
  code.place(end);
}

function clear({ code, pool }: LoopFrame, fold: Fold, sums: readonly Vector[]): void {
  const lowest = pool.constant(-0x800000);
  for (const sum of sums) {
    if (fold === 'sum') code.ternary('vpxord', sum, sum, sum);
    else if (lowest.kind === 'memory') code.binary('vbroadcastss', sum, lowest.memory);
  }
}

/** The sum or the maximum of all lanes, in all lanes. */
function across({ code }: LoopFrame, fold: Fold, sums: readonly Vector[]): Vector {
  const combine = (a: Vector, b: Vector): void => {
    if (fold === 'sum') code.ternary('vaddps', a, a, b);
    else code.ternary('vmaxps', a, b, a);
  };
  for (let half = sums.length / 2; half >= 1; half /= 2) {
    for (const [index, low] of sums.slice(0, half).entries()) {
      combine(low, sums[half + index] ?? low);
    }
  }
  const [value = zmm(31)] = sums;
  const other = zmm(0);
  for (const order of [0x4e, 0xb1]) {
    code.ternaryWith('vshuff32x4', other, value, value, order);
    combine(value, other);
  }
  for (const order of [0x4e, 0xb1]) {
    code.binaryWith('vpermilps', other, value, order);
    combine(value, other);
  }
  return value;
}
