import {
  isAttentionInstruction,
  isPagedInstruction,
} from '../../program/attention-instructions.ts';
import { Dataflow } from '../../program/dataflow.ts';
import type { KernelSupport } from './kernel-support.ts';
import type { CpuProgram, CpuInstruction } from '../../program/instruction.ts';
import { isGroupedInstruction, isNarrowProduct } from '../../program/product-instructions.ts';
import { isNarrowing } from '../../program/half-casts.ts';
import { repeatedCasts } from './repeated-casts.ts';

/**
 * Finds the lazy values that must be computed into memory all the same. These are outputs, values of updates, and
 * operands that the loop of a kernel cannot repeat. One reshape of each result may be an output without being stored,
 * because the result itself then lies in the output's buffer. `heads` are permutes and slices that attention reads
 * through.
 */
export function dataflowOf(
  program: CpuProgram,
  support: KernelSupport,
  heads: ReadonlySet<number> = new Set(),
): Dataflow {
  const stored = new Set<number>();
  const readsMemory = support.fallback.kind === 'plain';
  const flow = new Dataflow(program, repeatedCasts(program).union(heads), stored);
  const producers = new Map(
    program.instructions.map((instruction) => [instruction.output, instruction]),
  );
  const taken = new Set(program.outputs);
  for (const id of program.outputs) {
    if (flow.lazy(id) === undefined) continue;
    const root = flow.root(id);
    const movable = root !== undefined && root >= program.inputCount && !taken.has(root);
    if (movable) taken.add(root);
    else stored.add(id);
  }
  for (const { value } of program.updates) {
    if (flow.lazy(value) !== undefined) stored.add(value);
  }

  function storeUnrepeatable(id: number): void {
    const lazy = flow.lazy(id);
    if (lazy === undefined) return;
    if (support.fuses(lazy, program.values)) lazy.inputs.forEach(storeUnrepeatable);
    else store(id, lazy);
  }

  /** For operands of products: products read them through views, and packing rounds inputs of the program. */
  function storeBelowViews(id: number): void {
    const lazy = flow.lazy(id);
    if (lazy?.op === 'reshape' || lazy?.op === 'expand') lazy.inputs.forEach(storeBelowViews);
    else if (lazy !== undefined && !isNarrowing(lazy, program.values)) store(id, lazy);
  }
  function storeBelowReshapes(id: number): void {
    const lazy = flow.lazy(id);
    if (lazy === undefined) return;
    if (lazy.op === 'reshape') lazy.inputs.forEach(storeBelowReshapes);
    else store(id, lazy);
  }

  /** For operands of attention, which reads heads where they lie. */
  function storeBelowHeads(id: number): void {
    const lazy = flow.lazy(id);
    if (lazy === undefined) return;
    if (lazy.op === 'reshape' || lazy.op === 'permute' || lazy.op === 'slice') {
      lazy.inputs.forEach(storeBelowHeads);
    } else store(id, lazy);
  }

  /** For operands of grouped products: packing rounds inputs of the program, which are in memory. */
  function storeUnpacked(id: number): void {
    const lazy = flow.lazy(id);
    if (lazy?.op === 'reshape') lazy.inputs.forEach(storeUnpacked);
    else if (lazy !== undefined && !isNarrowing(lazy, program.values)) store(id, lazy);
  }

  /**
   * Stores a value. If the fallback is loops in JavaScript, the inputs of the instruction that makes the value
   * must lie in memory too, unless a kernel computes the instruction and can repeat them.
   */
  function store(id: number, lazy: CpuInstruction): void {
    stored.add(id);
    if (!readsMemory) return;
    const isKernel = support.computes(lazy, program.values);
    lazy.inputs.forEach(isKernel ? storeUnrepeatable : storeBelowReshapes);
  }

  for (const id of readsMemory ? [...stored] : []) {
    const lazy = producers.get(id);
    if (lazy !== undefined) store(id, lazy);
  }
  for (const instruction of program.instructions) {
    // Only a product of ours can compute such an instruction. If it cannot read the operands where they lie, the values
    // below their views are stored. If that is not enough, the operands themselves are.
    const isWanting = (): boolean =>
      ((readsMemory && instruction.op === 'matmul') ||
        instruction.op === 'blockedLinear' ||
        isNarrowProduct(instruction, program.values)) &&
      !support.multiplies(instruction, program.values, flow);
    if (isWanting()) instruction.inputs.forEach(storeBelowViews);
    if (isWanting()) {
      for (const id of instruction.inputs) {
        const lazy = flow.lazy(id);
        if (lazy !== undefined) store(id, lazy);
      }
    }
    if (isGroupedInstruction(instruction)) instruction.inputs.forEach(storeUnpacked);
    if (isAttentionInstruction(instruction)) instruction.inputs.forEach(storeBelowHeads);
    if (isPagedInstruction(instruction)) instruction.inputs.forEach(storeBelowReshapes);
    if (flow.lazy(instruction.output) !== undefined) continue;
    if (support.computes(instruction, program.values))
      instruction.inputs.forEach(storeUnrepeatable);
    else if (readsMemory && !support.multiplies(instruction, program.values, flow)) {
      instruction.inputs.forEach(storeBelowReshapes);
    }
  }
  return flow;
}
