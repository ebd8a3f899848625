import type {
  ElementwiseOp,
  LaneDType,
  LoopLoad,
  LoopSpec,
  LoopStep,
} from '../../src/lanes/loop-spec.ts';

type Computed = 'f32' | 'i32' | 'bool';

const operations: Readonly<Record<Computed, readonly ElementwiseOp[]>> = {
  f32: [
    ...(['neg', 'abs', 'sign', 'exp', 'log', 'sqrt', 'tanh', 'erf', 'floor', 'ceil'] as const),
    ...(['add', 'sub', 'mul', 'div', 'maximum', 'minimum', 'equal', 'less', 'lessEqual'] as const),
    ...(['sigmoid', 'relu', 'gelu', 'geluGrad', 'where'] as const),
  ],
  i32: [
    'neg',
    'abs',
    'add',
    'sub',
    'mul',
    'pow',
    'maximum',
    'minimum',
    'equal',
    'less',
    'lessEqual',
    'where',
    'random',
  ],
  bool: ['logicalNot', 'logicalAnd', 'logicalOr', 'where'],
};
const comparisons: ReadonlySet<string> = new Set(['equal', 'less', 'lessEqual']);
const dtypes: readonly LaneDType[] = ['f32', 'i32', 'bool', 'f16', 'bf16', 'u8'];

/** A random loop on any dtypes, of the kind that the planner could make. `random` returns numbers from 0 to 1. */
export function randomLoop(random: () => number): LoopSpec {
  const below = (count: number): number => Math.floor(random() * count);
  const pick = <T>(choices: readonly T[], fallback: T): T =>
    choices[below(choices.length)] ?? fallback;
  const byRows = random() < 0.5;
  const access = (): LoopLoad['access'] =>
    byRows
      ? pick(['element', 'row', 'column', 'scalar'], 'element')
      : pick(['element', 'scalar'], 'element');
  const loads: LoopLoad[] = Array.from({ length: 1 + below(8) }, () => {
    const kind = access();
    return {
      dtype: pick(dtypes, 'f32'),
      access: kind,
      elementOffset: kind === 'scalar' ? below(2) : 0,
    };
  });
  const types: LaneDType[] = loads.map(({ dtype }) => dtype);
  const steps: LoopStep[] = [];
  const push = (step: LoopStep): number => {
    steps.push(step);
    return types.push(step.dtype) - 1;
  };
  /** Returns a slot with this dtype. If there is none, adds a conversion or a constant. */
  const slotOf = (dtype: LaneDType): number => {
    const known = [...types.keys()].filter((slot) => types[slot] === dtype);
    if (known.length > 0 && random() < 0.8) return pick(known, 0);
    if (random() < 0.2) return push({ op: 'constant', dtype, value: below(5) });
    const from = below(types.length);
    return push({ op: 'cast', dtype, inputs: [from], inputDType: types[from] ?? dtype });
  };
  for (let count = 1 + below(40); count > 0; count--) {
    const inputDType = pick<Computed>(['f32', 'f32', 'i32', 'bool'], 'f32');
    const op = pick(operations[inputDType], 'where');
    const first = slotOf(op === 'where' ? 'bool' : inputDType);
    const inputs = [first, slotOf(inputDType), slotOf(inputDType)];
    const dtype = comparisons.has(op) ? 'bool' : inputDType;
    push({ op, dtype, inputs, inputDType, approximate: pick(['none', 'tanh'], 'none') });
  }
  push({ op: 'copy', dtype: types[0] ?? 'f32', inputs: [0] });
  for (const dtype of dtypes) slotOf(dtype);
  const results = [...types.keys()].slice(loads.length);
  const stores = Array.from({ length: 1 + below(6) }, () => pick(results, results.length));
  return {
    byRows,
    loads,
    steps,
    stores: stores.map((slot) => ({ slot, dtype: types[slot] ?? 'f32' })),
  };
}
