import type { MemoryMap } from '../segments/memory-map.ts';
import type { PlanStep } from '../steps/plan-step.ts';
import type { ValueGraph } from '../values/values.ts';

/** The steps of a plan in which its leaves must be on the device. Between these steps they may be elsewhere. */
export interface LeafUses {
  /** By step: the leaves that must be on the device when the step begins. */
  readonly needed: readonly (readonly number[])[];
  /** By step: the leaves that are not in use when the step has ended. `last`: whether no later step needs the leaf. */
  readonly unused: readonly (readonly { readonly leaf: number; readonly last: boolean }[])[];
}

interface Use {
  readonly leaf: number;
  /** The first and the last step of the use. */
  readonly from: number;
  to: number;
}

export function leafUsesOf(
  graph: ValueGraph,
  memory: MemoryMap,
  steps: readonly PlanStep[],
): LeafUses {
  const uses = new Map<number, Use[]>();
  const use = (ids: readonly number[], from: number, to: number): void => {
    for (const id of ids) {
      const place = memory.places[id];
      if (place?.kind !== 'leaf') continue;
      const { leaf } = place;
      const known = uses.get(leaf) ?? [];
      uses.set(leaf, known);
      const latest = known.at(-1);
      // Steps are visited in order, so a use can only meet the latest one.
      if (latest !== undefined && latest.to >= from - 1) latest.to = Math.max(latest.to, to);
      else known.push({ leaf, from, to });
    }
  };
  const waits = new Map<number | undefined, number>();
  for (const [index, step] of steps.entries()) {
    if (step.kind === 'wait') waits.set(step.values[0], index);
  }
  steps.forEach((step, index) => {
    if (step.kind === 'compute') use([...step.inputs, ...step.outputs], index, index);
    else if (step.kind === 'copy') use([step.from, step.leaf], index, index);
    else if (step.kind === 'size') use(step.values, index, index);
    else if (step.kind === 'start') {
      const inputs = step.values.flatMap((id) => graph.values[id]?.inputs ?? []);
      use([...step.values, ...inputs], index, waits.get(step.values[0]) ?? steps.length - 1);
    }
  });
  const needed = steps.map((): number[] => []);
  const unused = steps.map((): { leaf: number; last: boolean }[] => []);
  for (const list of uses.values()) {
    list.forEach(({ leaf, from, to }, index) => {
      needed[from]?.push(leaf);
      unused[to]?.push({ leaf, last: index === list.length - 1 });
    });
  }
  return { needed, unused };
}
