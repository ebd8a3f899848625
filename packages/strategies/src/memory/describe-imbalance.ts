import type { Plan } from '@shardwise/core/extend';
import { holdsAlone, planMemory, type PlanMemoryOptions, statesOf } from './plan-memory.ts';

/** Describes the states that one rank keeps and the others do not. Returns nothing if all ranks keep the same bytes. */
export function describeImbalance(plan: Plan, options: PlanMemoryOptions): readonly string[] {
  const holders = holdsAlone(plan);
  if (holders.length > 1) {
    const bytes = holders
      .toSorted((a, b) => a.rank - b.rank)
      .map((holder) => {
        const { parameter, gradient, optimizer } = statesOf(plan, holder, options);
        return `rank ${holder.rank} of ${holder.axis} keeps ${parameter + gradient + optimizer}`;
      });
    return [`bytes of states: ${bytes.join(', ')}`];
  }
  const states = ['parameter', 'gradient', 'optimizer'] as const;
  const alone = states.map((state) => plan.parameters.find((each) => each[state].only)?.[state]);
  const only = alone.find((layout) => layout !== undefined)?.only;
  const size = plan.axes.find(({ name }) => name === only?.axis)?.size ?? 1;
  if (only === undefined || size === 1) return [];
  const { statesBytes, parameterBytes, gradientBytes, optimizerBytes } = planMemory(plan, options);
  const shared = [parameterBytes, gradientBytes, optimizerBytes].filter(
    (_, state) => alone[state] === undefined,
  );
  const others = shared.reduce((sum, bytes) => sum + bytes, 0);
  return [
    `imbalance: rank ${only.rank} of ${only.axis} keeps ${statesBytes} bytes of states, each of the ${size - 1} others ${others}`,
  ];
}
