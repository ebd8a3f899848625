import type { Plan } from '@shardwise/core/extend';
import {
  holdsAlone,
  type PlanMemory,
  planMemory,
  type PlanMemoryOptions,
  statesOf,
} from './plan-memory.ts';
import type { StatesFormula } from './states-formula.ts';

/** Returns the rows of a table of the bytes that a rank keeps. */
export function memoryRows(memory: PlanMemory): readonly (readonly string[])[] {
  const { parameterBytes, gradientBytes, optimizerBytes, bufferBytes, activationBytes } = memory;
  const cell = (bytes: number | null): string => (bytes === null ? 'not known' : String(bytes));
  const sum = memory.statesBytes + (bufferBytes ?? 0) + (activationBytes ?? 0);
  return [
    ['per rank', 'bytes'],
    ['parameters', cell(parameterBytes)],
    ['gradients', cell(gradientBytes)],
    ['optimizer states', cell(optimizerBytes)],
    ['buffers', cell(bufferBytes)],
    ['activations', cell(activationBytes)],
    ['sum', cell(sum)],
  ];
}

/** Writes the formula on one line, with its numbers, and says which bytes it does not count. */
export function describeFormula(memory: PlanMemory): string {
  const { formula, statesBytes } = memory;
  if (formula === null) return `states: ${statesBytes} bytes; parameters are not cut alike`;
  const { text, elements, parts, bytes } = formula;
  const where = [`Ψ = ${elements} trained elements`, ...(parts > 1 ? [`N = ${parts}`] : [])];
  const rest = statesBytes - bytes;
  const others = rest === 0 ? '' : `; ${Number(rest.toFixed(2))} bytes are frozen or padding`;
  return `states: ${text} = ${numbersOf(formula)} = ${Number(bytes.toFixed(2))} bytes, ${where.join(', ')}${others}`;
}

function numbersOf({ wholeBytes, sharedBytes, elements, parts }: StatesFormula): string {
  const whole = wholeBytes === 0 ? [] : [`${wholeBytes} × ${elements}`];
  const shared = sharedBytes === 0 ? [] : [`${sharedBytes} × ${elements} / ${parts}`];
  return [...whole, ...shared].join(' + ') || '0';
}

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
