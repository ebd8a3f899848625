import { BackendError, type Instruction, type Program } from '@shardwise/core/spec';
import { argSort, cumsum, scatter } from '../kernels/along-dim.ts';
import { attention, isAttention } from '../kernels/attention.ts';
import { checkIndices, CHECK_WORDS, isIndexing } from '../kernels/check-indices.ts';
import { convolution } from '../kernels/convolution.ts';
import { groupedMatmul, groupedMatmulWeight } from '../kernels/grouped-matmul.ts';
import { indexAdd } from '../kernels/index-add.ts';
import { matmul } from '../kernels/matmul.ts';
import { pointwise } from '../kernels/pointwise.ts';
import { reduce } from '../kernels/reduce.ts';
import { isRowInstruction, rows } from '../kernels/rows.ts';
import type { DeviceTraits } from '../kernels/device-traits.ts';
import { buffersOf, tooManyBindings } from './binding-limit.ts';
import { bufferCount, gatheredInputs } from './buffer-count.ts';
import { checksFirst } from './checks-first.ts';
import { joinAttention } from './join-attention.ts';
import { joinEpilogues } from './join-epilogues.ts';
import { joinPointwise } from './join-pointwise.ts';
import type { Kernel } from '../emit/kernel.ts';
import type { IndexCheck, KernelPlan } from './kernel-plan.ts';
import { termsOf } from './kernel-work.ts';
import { materialised } from './materialise.ts';
import { placeUpdates } from './place-updates.ts';
import { Reads } from './reads.ts';
import { rewrite } from './rewrite.ts';
import { bindingsOf, sliceKernel } from './slice-kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';

/** Throws BackendError if a kernel would need more bindings than the device has. */
export function planKernels(program: Program, traits: DeviceTraits): KernelPlan {
  checkDTypes(program);
  let refused: BackendError | undefined;
  for (const assumptions of attempts) {
    const plan = planWith(program, traits, assumptions);
    const { mostBuffers } = traits;
    const large = plan.kernels.find((kernel) => buffersOf(plan, kernel) > mostBuffers);
    if (large === undefined) return plan;
    if (assumptions.cuts) refused = tooManyBindings(plan, large, mostBuffers);
  }
  throw refused;
}

/** Facts that are known only when planning ends, and are assumed before. */
interface Assumptions {
  /** A value that replaces an input in place takes no buffer of its own. */
  readonly replaces: boolean;
  /**
   * A kernel with a value larger than a binding is cut into slices, so that it needs only a stretch of that value at a
   * time.
   */
  readonly cuts: boolean;
}

const attempts: readonly Assumptions[] = [
  { replaces: true, cuts: true },
  { replaces: false, cuts: true },
  { replaces: false, cuts: false },
];

function planWith(
  program: Program,
  traits: DeviceTraits,
  { replaces, cuts }: Assumptions,
): KernelPlan {
  const { mostBuffers, bindingBytes } = traits;
  const { values, outputs, updates } = rewrite(program);
  const gathered = gatheredInputs(values, updates);
  const targets = new Map(replaces ? updates.map(({ value, target }) => [value, target]) : []);
  const bindings = (id: number): number => (cuts ? 1 : bindingsOf(values, {}, id, bindingBytes));
  const buffers = bufferCount((id) => (gathered.has(id) ? -1 : id), bindings);
  const joinedBuffers = bufferCount(
    (id) => (gathered.has(id) ? -1 : (targets.get(id) ?? id)),
    bindings,
  );
  const roots = new Set([...outputs, ...updates.map(({ value }) => value)]);
  const needed = neededFor(values, roots);
  // The result takes a buffer, and so do the words of checks.
  const inMemory = materialised(values, needed, { roots, mostReads: mostBuffers - 2, buffers });
  const reads = new Reads(values, inMemory);
  const { faults, checks, kernels: checking } = planChecks(values, needed, reads);
  const kernels: Kernel[] = [];
  const made = new Set<number>();
  for (const id of needed) {
    const instruction = values.instruction(id);
    if (instruction === undefined) continue;
    const check = checking.get(id);
    if (check !== undefined) kernels.push(check);
    if (!inMemory.has(id) || countOf(instruction.shape) === 0 || made.has(id)) continue;
    const read = [...reads.ofInputs(id).keys()];
    const terms = termsOf(values, instruction);
    if (!isAttention(instruction)) {
      kernels.push({ ...kernelOf(values, id, instruction, { reads: read, traits }), terms });
      continue;
    }
    const { roots: written, others } = joinAttention(values, needed, id, {
      reads: read.length,
      mostBuffers,
    });
    for (const other of others) made.add(other);
    kernels.push({ ...attention(values, instruction, written, read), terms });
  }
  const joined = joinPointwise(values, kernels, reads, {
    mostBuffers: faults === undefined ? mostBuffers : mostBuffers - 1,
    buffers: joinedBuffers,
  });
  const updated = new Set(updates.map(({ value }) => value));
  const withEpilogues = joinEpilogues(values, joined, {
    reads,
    roots,
    updated,
    traits: { ...traits, mostBuffers: mostBuffers - 1 },
    buffers,
  });
  const placed = placeUpdates(values, checksFirst(withEpilogues), reads, {
    updates,
    outputs,
    hasChecks: faults !== undefined,
  });
  const sliced = placed.kernels.map((kernel) => sliceKernel(values, kernel, reads, bindingBytes));
  return { values, outputs, faults, checks, gathered, bindingBytes, ...placed, kernels: sliced };
}

/** Throws if the program computes in 64 or 16 bits. Values of these sizes are only moved and converted. */
function checkDTypes({ inputs, instructions }: Program): void {
  const types = [...inputs, ...instructions];
  for (const [number, instruction] of instructions.entries()) {
    const { op } = instruction;
    if (!computing.has(op)) continue;
    const read = instruction.inputs.map((id) => types[id]?.dtype ?? 'f32');
    const wide = [instruction.dtype, ...read].find((dtype) => !computed.has(dtype));
    if (wide === undefined) continue;
    throw new BackendError(
      {
        asked: `to compute ${op} of ${wide}`,
        found: 'this device computes with f32, i32 and bool',
        todo: 'Cast the inputs to one of those before, and the result back',
      },
      { op, instruction: number, dtype: wide },
    );
  }
}

const computed: ReadonlySet<string> = new Set(['f32', 'i32', 'bool']);
const moving: ReadonlySet<string> = new Set<Instruction['op']>([
  'constant',
  'iota',
  'random',
  'cast',
  'where',
  'reshape',
  'permute',
  'expand',
  'slice',
  'pad',
  'concat',
  'gather',
  'indexSelect',
  'scatter',
]);
const computing = { has: (op: string): boolean => !moving.has(op) };

/** The values that roots depend on, in the order of the program. */
function neededFor(values: Values, roots: Iterable<number>): number[] {
  const needed = new Set<number>();
  const visit = [...roots];
  for (let id = visit.pop(); id !== undefined; id = visit.pop()) {
    if (needed.has(id)) continue;
    needed.add(id);
    visit.push(...(values.instruction(id)?.inputs ?? []));
  }
  return [...needed].toSorted((a, b) => a - b);
}

interface Checks {
  readonly faults: number | undefined;
  readonly checks: readonly IndexCheck[];
  /** The kernels of the checks, by the value whose instruction they check. */
  readonly kernels: ReadonlyMap<number, Kernel>;
}

function planChecks(values: Values, needed: readonly number[], reads: Reads): Checks {
  const checked = needed.flatMap((id) => {
    const instruction = values.instruction(id);
    const isChecked =
      instruction !== undefined &&
      isIndexing(instruction) &&
      countOf(values.shape(instruction.inputs[1] ?? 0)) > 0;
    return isChecked ? [{ id, instruction }] : [];
  });
  if (checked.length === 0) return { faults: undefined, checks: [], kernels: new Map() };
  const shape = [1 + checked.length * CHECK_WORDS];
  const params = { value: 0, shape, dtype: 'i32' } as const;
  const faults = values.add({ op: 'constant', params, inputs: [], shape, dtype: 'i32' });
  const kernels = checked.map(({ id, instruction }, number) => {
    const read = [...reads.of(instruction.inputs[1] ?? 0).keys()];
    return [id, checkIndices(values, instruction, number, faults, read)] as const;
  });
  const checks = checked.map(({ id, instruction }) => ({
    op: instruction.op,
    instruction: values.origin(id),
    size: values.shape(instruction.inputs[0] ?? 0)[instruction.params.dim] ?? 0,
    index: inputAt(instruction, 1),
  }));
  return { faults, checks, kernels: new Map(kernels) };
}

function kernelOf(
  values: Values,
  id: number,
  instruction: Instruction,
  { reads, traits }: { readonly reads: readonly number[]; readonly traits: DeviceTraits },
): Kernel {
  if (isRowInstruction(instruction)) return rows(values, id, instruction, reads);
  switch (instruction.op) {
    case 'sum':
    case 'max':
    case 'argMax':
      return reduce(values, id, instruction, reads);
    case 'matmul':
      return matmul(values, id, instruction, { reads, traits });
    case 'groupedMatmul':
      return groupedMatmul(values, id, instruction, reads);
    case 'groupedMatmulWeight':
      return groupedMatmulWeight(values, id, instruction, reads);
    case 'argSort':
      return argSort(values, id, instruction, reads);
    case 'cumsum':
      return cumsum(values, id, instruction, reads);
    case 'scatterAdd':
    case 'scatter':
      return scatter(values, id, instruction, reads);
    case 'indexAdd':
      return indexAdd(values, id, instruction, reads);
    case 'conv2d':
    case 'conv2dInput':
    case 'conv2dWeight':
      return convolution(values, id, instruction, reads);
    default:
      return pointwise(values, [id], reads, instruction.op);
  }
}
