import { Dataflow } from './dataflow.ts';
import { isGroupedStep } from './grouped-step.ts';
import type { KernelSupport } from './kernel-support.ts';
import { isNarrowProduct } from './narrow-products.ts';
import type { Segment } from './step.ts';

/**
 * Lazy values that must be computed into memory all the same: outputs and update values, but for
 * the one reshape of a result that may stand in the output's place, and operands that the loop of
 * a kernel cannot repeat.
 */
export function storedValues(segment: Segment, support: KernelSupport): ReadonlySet<number> {
  const stored = new Set<number>();
  const flow = new Dataflow(segment, stored);
  const taken = new Set(segment.outputs);
  for (const id of segment.outputs) {
    if (flow.lazy(id) === undefined) continue;
    const root = flow.root(id);
    const movable = root !== undefined && root >= segment.inputCount && !taken.has(root);
    if (movable) taken.add(root);
    else stored.add(id);
  }
  for (const { value } of segment.updates) {
    if (flow.lazy(value) !== undefined) stored.add(value);
  }

  function storeUnrepeatable(id: number): void {
    const lazy = flow.lazy(id);
    if (lazy === undefined) return;
    if (support.fuses(lazy, segment.values)) lazy.inputs.forEach(storeUnrepeatable);
    else stored.add(id);
  }

  function storeBelowViews(id: number): void {
    const lazy = flow.lazy(id);
    if (lazy?.op === 'reshape' || lazy?.op === 'expand') lazy.inputs.forEach(storeBelowViews);
    else if (lazy !== undefined) stored.add(id);
  }
  for (const step of segment.steps) {
    // Machine code reads them where they lie, through views; nothing else multiplies them.
    const isWanting = (): boolean =>
      isNarrowProduct(step, segment.values) && !support.multiplies(step, segment.values, flow);
    if (isWanting()) step.inputs.forEach(storeBelowViews);
    if (isWanting()) {
      for (const id of step.inputs) if (flow.lazy(id) !== undefined) stored.add(id);
    }
    if (isGroupedStep(step)) {
      for (const id of step.inputs) if (flow.root(id) === undefined) stored.add(id);
    }
    const isKernel = flow.lazy(step.output) === undefined && support.computes(step, segment.values);
    if (isKernel) step.inputs.forEach(storeUnrepeatable);
  }
  return stored;
}
