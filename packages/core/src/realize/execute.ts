import type { Node, NodeValue } from '../graph/node.ts';
import { adoptStorage } from '../graph/ownership.ts';
import { Storage } from '../graph/storage.ts';
import type { Page, PageStore } from '../paging/page.ts';
import type { Backend, DeviceBuffer } from '../spec/backend.ts';
import { ShapeError, ShardwiseError } from '../spec/errors.ts';
import { dtypes, type Shape } from '../spec/dtype.ts';
import type { Mesh } from '../spec/mesh.ts';
import type { Sizes } from '../spec/sized.ts';
import { elementCount } from '../shape.ts';
import { count, record } from '../timeline.ts';
import { issue, type Issued, type Message } from './communicate.ts';
import type { Place } from './memory-map.ts';
import { failedValues, type ExecutionPlan } from './execution-plan.ts';
import type { PlanStep } from './plan-step.ts';
import {
  type CollectiveValue,
  isCollective,
  type Numbering,
  type TransferValue,
} from './values.ts';

/** Memory of one run of a plan. */
interface Run {
  readonly backend: Backend;
  readonly mesh: Mesh;
  readonly plan: ExecutionPlan;
  /** What the symbols of the plan are. */
  readonly sizes: Sizes;
  /** The shape of each value; null where they are those of the plan's graph. */
  readonly shapes: readonly Shape[] | null;
  /** The leaves that are on the device now, by number. */
  readonly leaves: Map<number, DeviceBuffer>;
  readonly scratch: DeviceBuffer | null;
  readonly allocations: readonly Storage[];
  /** One object per place, so that an output that lies on its input is seen to do so. */
  readonly buffers: Map<Place, DeviceBuffer>;
  readonly stores: readonly PageStore[];
  /** What has been paged out, by value. */
  readonly pages: Map<number, Page>;
  readonly started: Map<number, Promise<void>>;
  /** Collectives that have been issued and are not done. */
  readonly inFlight: Set<Promise<void>>;
}

/** What a root got: memory, or a page. */
export type RootResult =
  | { readonly kind: 'storage'; readonly storage: Storage }
  | { readonly kind: 'page'; readonly page: Page };

/** A step of a plan failed. */
export class RunFailure extends Error {
  readonly numbering: Numbering;
  /** Those of its values that the cause is about. */
  readonly values: readonly number[];
  /** Whether leaves were changed in place before, or may have been. */
  readonly updated: boolean;
  /** Whether collectives or transfers were started. */
  readonly started: boolean;
  /** The result of each root; null for roots that the run did not come to. */
  readonly results: readonly (RootResult | null)[];

  constructor(
    numbering: Numbering,
    values: readonly number[],
    { updated, started }: { readonly updated: boolean; readonly started: boolean },
    results: readonly (RootResult | null)[],
    cause: unknown,
  ) {
    super('a step of a plan failed', { cause });
    this.numbering = numbering;
    this.values = values;
    this.updated = updated;
    this.started = started;
    this.results = results;
  }
}

/** Runs a plan on the values of its leaves; one result per root, in order. Throws RunFailure. */
export async function execute(
  plan: ExecutionPlan,
  leaves: readonly Node[],
  { backend, mesh, stores, sizes }: Pick<Run, 'backend' | 'mesh' | 'stores' | 'sizes'>,
): Promise<readonly RootResult[]> {
  const temporary = new Map<Node | 'scratch', DeviceBuffer>();
  const allocations: Storage[] = [];
  const started = new Map<number, Promise<void>>();
  try {
    const shapes = plan.shapes?.at(sizes) ?? null;
    for (const { byteLength, of } of plan.memory.allocations) {
      const bytes = of === null ? byteLength : bytesIn(plan, shapes, of);
      allocations.push(Storage.allocate(backend, bytes));
    }
    const scratch = plan.memory.scratchBytes > 0 ? backend.alloc(plan.memory.scratchBytes) : null;
    if (scratch !== null) temporary.set('scratch', scratch);
    const run: Run = {
      backend,
      mesh,
      stores,
      plan,
      sizes,
      shapes,
      leaves: new Map(),
      scratch,
      allocations,
      buffers: new Map(),
      pages: new Map(),
      started,
      inFlight: new Set(),
    };
    for (const [index, step] of plan.steps.entries()) {
      try {
        for (const number of plan.leafUses.needed[index] ?? []) {
          const leaf = leaves[number];
          if (leaf === undefined || run.leaves.has(number)) continue;
          run.leaves.set(number, await leafBuffer(leaf, backend, temporary));
        }
        await runStep(run, step);
      } catch (error) {
        throw await failureOf(run, index, error);
      }
      for (const { leaf: number, last } of plan.leafUses.unused[index] ?? []) {
        const leaf = leaves[number];
        const buffer = leaf === undefined ? undefined : temporary.get(leaf);
        if (leaf === undefined || buffer === undefined) continue;
        if (!last && leaf.value?.kind !== 'paged') continue;
        temporary.delete(leaf);
        run.leaves.delete(number);
        backend.free(buffer);
      }
    }
    return plan.graph.roots.map((id) => rootResult(run, id));
  } finally {
    // What was started must end before its memory is given back, also after a failure elsewhere.
    await Promise.allSettled(started.values());
    for (const buffer of temporary.values()) backend.free(buffer);
    for (const storage of allocations) storage.release();
  }
}

async function leafBuffer(
  leaf: Node,
  backend: Backend,
  temporary: Map<Node | 'scratch', DeviceBuffer>,
): Promise<DeviceBuffer> {
  const { value } = leaf;
  if (value?.kind === 'device') return value.storage.buffer;
  if (value?.kind !== 'host' && value?.kind !== 'paged') {
    throw new RangeError('a leaf without value');
  }
  const { byteLength } = value.kind === 'host' ? value.bytes : value.page;
  if (leaf.resident) {
    const storage = Storage.allocate(backend, byteLength);
    await fill(backend, storage.buffer, value);
    adoptStorage(leaf, storage);
    return storage.buffer;
  }
  const buffer = backend.alloc(byteLength);
  temporary.set(leaf, buffer);
  await fill(backend, buffer, value);
  return buffer;
}

/**
 * Fills a buffer at once where the device computes in host memory: the next step may read it without the
 * device's queue.
 */
async function fill(
  backend: Backend,
  buffer: DeviceBuffer,
  value: Extract<NodeValue, { kind: 'host' | 'paged' }>,
): Promise<void> {
  const mapped = backend.map(buffer);
  if (value.kind === 'host') {
    if (mapped === undefined) backend.write(buffer, value.bytes);
    else mapped.set(value.bytes);
    return;
  }
  const bytes = mapped ?? new Uint8Array(buffer.byteLength);
  await value.page.read(bytes);
  if (mapped === undefined) backend.write(buffer, bytes);
}

function placeOf(plan: ExecutionPlan, id: number): Place {
  const place = plan.memory.places.get(id);
  if (place === undefined) throw new RangeError(`value ${id} has no place`);
  return place;
}

/** Bytes of a value that has memory. */
function bytesIn(plan: ExecutionPlan, shapes: readonly Shape[] | null, id: number): number {
  const value = plan.graph.values[id];
  if (value === undefined) throw new RangeError(`no value ${id}`);
  return elementCount(shapes?.[id] ?? value.shape) * dtypes[value.dtype].bytes;
}

function bufferOf(run: Run, id: number): DeviceBuffer {
  const planned = placeOf(run.plan, id);
  if (planned.kind === 'leaf') return locate(run, planned);
  let buffer = run.buffers.get(planned);
  if (buffer === undefined) {
    const byteLength = run.shapes === null ? planned.byteLength : bytesIn(run.plan, run.shapes, id);
    buffer = locate(run, { ...planned, byteLength });
    run.buffers.set(planned, buffer);
  }
  return buffer;
}

function locate(run: Run, place: Place): DeviceBuffer {
  const base =
    place.kind === 'leaf'
      ? run.leaves.get(place.leaf)
      : place.kind === 'scratch'
        ? run.scratch
        : run.allocations[place.allocation]?.buffer;
  if (base === undefined || base === null) throw new RangeError(`no memory for a ${place.kind}`);
  return place.kind === 'leaf' ? base : base.subBuffer(place.byteOffset, place.byteLength);
}

function rootResult(run: Run, id: number): RootResult {
  const page = run.pages.get(id);
  if (page !== undefined) return { kind: 'page', page };
  const place = placeOf(run.plan, id);
  const allocation = place.kind === 'result' ? run.allocations[place.allocation] : undefined;
  if (place.kind !== 'result' || allocation === undefined)
    throw new RangeError('a root outside the results');
  const byteLength = bytesIn(run.plan, run.shapes, id);
  return { kind: 'storage', storage: allocation.part(place.byteOffset, byteLength) };
}

async function failureOf(run: Run, at: number, error: unknown): Promise<RunFailure> {
  const { plan, started } = run;
  const made = new Set<number>();
  for (const step of plan.steps.slice(0, at)) {
    if (step.kind === 'compute') for (const id of step.outputs) made.add(id);
  }
  for (const [id, done] of started) if (await succeeds(done)) made.add(id);
  const results = plan.graph.roots.map((id) => (made.has(id) ? rootResult(run, id) : null));
  const step = plan.steps[at];
  const updated =
    plan.steps.slice(0, at).some((each) => updates(plan, each)) ||
    (step !== undefined && mayHaveUpdated(plan, step, error));
  const values = step === undefined || step.kind === 'copy' ? [] : step.values;
  return new RunFailure(
    plan,
    step?.kind === 'compute' ? failedValues(values, error) : values,
    { updated, started: started.size > 0 },
    results,
    error,
  );
}

async function succeeds(done: Promise<void>): Promise<boolean> {
  try {
    await done;
    return true;
  } catch {
    return false;
  }
}

/** Whether a step changes leaves in place. */
function updates(plan: ExecutionPlan, step: PlanStep): boolean {
  if (step.kind === 'compute') return step.updates;
  if (step.kind === 'copy') return true;
  return (
    step.kind === 'start' && step.values.some((id) => plan.memory.places.get(id)?.kind === 'leaf')
  );
}

/** A run of a program that fails has changed nothing, but where its error says that it may have. */
function mayHaveUpdated(plan: ExecutionPlan, step: PlanStep, error: unknown): boolean {
  if (step.kind !== 'compute') return updates(plan, step);
  return step.updates && ShardwiseError.isInstance(error) && error.fields['updated'] === true;
}

async function runStep(run: Run, step: PlanStep): Promise<void> {
  const start = performance.now();
  switch (step.kind) {
    case 'compute': {
      const inputs = step.inputs.map((id) => bufferOf(run, id));
      const outputs = step.outputs.map((id) => bufferOf(run, id));
      const overlap = run.inFlight.size > 0;
      const options = step.isSized ? { overlap, sizes: run.sizes } : { overlap };
      await step.executable.run(inputs, outputs, options);
      count('computeMs', record('compute', step.name, start));
      return;
    }
    case 'start': {
      // Issued before the next step begins: every rank issues collectives in the program's order.
      const { moved, values } = step;
      const { done } = isCollective(moved)
        ? await startCollective(run, values, moved, start)
        : { done: transfer(run, values, moved, start) };
      void follow(run, done);
      for (const id of step.values) run.started.set(id, done);
      return;
    }
    case 'wait':
      for (const id of step.values) await run.started.get(id);
      count('communicationMs', performance.now() - start);
      return;
    case 'copy': {
      await copy(run.backend, bufferOf(run, step.from), bufferOf(run, step.leaf));
      return;
    }
    default:
      step satisfies never;
  }
}

/** Counts a collective among those in flight until it is done. */
async function follow({ inFlight }: Run, done: Promise<void>): Promise<void> {
  inFlight.add(done);
  try {
    await done;
  } catch {
    // A failure is seen by the step that waits, or by the run's end.
  } finally {
    inFlight.delete(done);
  }
}

async function startCollective(
  run: Run,
  values: readonly number[],
  collective: CollectiveValue,
  start: number,
): Promise<Issued> {
  const message = await messageOf(run, values, collective);
  const { input, output } = message;
  const { done } = await issue(run.backend, run.mesh, collective, message);
  const finish = async (): Promise<void> => {
    await done;
    count('collectives', 1);
    const byteLength = Math.max(input.byteLength, output.byteLength);
    count('collectiveBytes', byteLength);
    record('collective', collective.op, start, `${byteLength} bytes`);
  };
  return { done: finish() };
}

/** Writes a value to its page, or reads it from there. */
async function transfer(
  run: Run,
  [id = -1]: readonly number[],
  { op, params }: TransferValue,
  start: number,
): Promise<void> {
  const source = inputOf(run.plan, id);
  if (op === 'pageOut') {
    const { store: number, name } = params;
    const { [number]: store } = run.stores;
    if (store === undefined) throw new RangeError(`no store ${number}`);
    const buffer = bufferOf(run, source);
    const bytes = run.backend.map(buffer) ?? (await run.backend.read(buffer));
    run.pages.set(id, await store.write(name ?? `value ${id}`, bytes));
    record('transfer', op, start, `${buffer.byteLength} bytes`);
    return;
  }
  const page = run.pages.get(source);
  if (page === undefined) throw new RangeError(`value ${source} is in no page`);
  await fill(run.backend, bufferOf(run, id), { kind: 'paged', page });
  record('transfer', op, start, `${page.byteLength} bytes`);
}

/**
 * What a collective reads and writes. A bucket is one message on every rank: members that are not
 * computed into it, such as the zeros of parameters that this rank alone left out, are copied there.
 */
async function messageOf(
  run: Run,
  values: readonly number[],
  collective: CollectiveValue,
): Promise<Message> {
  const [first] = values;
  if (first === undefined) throw new RangeError('a collective of no values');
  if (collective.op === 'allToAllRows') return rowsOf(run, first);
  if (values.length === 1) {
    const output = bufferOf(run, first);
    return {
      input: run.plan.memory.inPlace.has(first) ? output : bufferOf(run, inputOf(run.plan, first)),
      output,
    };
  }
  for (const id of values) {
    if (run.plan.memory.inPlace.has(id)) continue;
    await copy(run.backend, bufferOf(run, inputOf(run.plan, id)), bufferOf(run, id));
  }
  const whole = wholeBucket(run, values);
  return { input: whole, output: whole };
}

/** Throws ShapeError where there are not as many rows as the counts say. */
async function rowsOf(run: Run, id: number): Promise<Message> {
  const [x = -1, sent = -1, received = -1] = run.plan.graph.values[id]?.inputs ?? [];
  const splitsOf = async (counts: number, of: number): Promise<number[]> => {
    const bytes = await bytesOf(run.backend, bufferOf(run, counts));
    const [rows = 0, ...row] = run.shapes?.[of] ?? run.plan.graph.values[of]?.shape ?? [];
    const numbers = [...new Int32Array(bytes.slice().buffer)];
    const sum = numbers.reduce((total, count) => total + count, 0);
    if (sum !== rows || numbers.some((count) => count < 0)) throw rowsError(rows, numbers);
    return numbers.map((count) => count * elementCount(row));
  };
  const inputSplits = await splitsOf(sent, x);
  const outputSplits = await splitsOf(received, id);
  return {
    input: bufferOf(run, x),
    output: bufferOf(run, id),
    splits: { inputSplits, outputSplits },
  };
}

function rowsError(rows: number, counts: readonly number[]): ShapeError {
  return new ShapeError(
    {
      asked: `allToAllRows of ${rows} rows`,
      found: `counts ${counts.join(', ')} for the ranks`,
      todo: 'Give counts that add up to the rows; exchangeRows() has the ranks agree on them',
    },
    { rows, counts },
  );
}

function inputOf(plan: ExecutionPlan, id: number): number {
  const [input] = plan.graph.values[id]?.inputs ?? [];
  if (input === undefined) throw new RangeError(`value ${id} has no input`);
  return input;
}

async function bytesOf(backend: Backend, buffer: DeviceBuffer): Promise<Uint8Array> {
  return backend.map(buffer) ?? (await backend.read(buffer));
}

async function copy(backend: Backend, from: DeviceBuffer, to: DeviceBuffer): Promise<void> {
  const bytes = await bytesOf(backend, from);
  const target = backend.map(to);
  // At once, as `fill`: a collective may be next.
  if (target === undefined) backend.write(to, bytes);
  else target.set(bytes);
}

/** The bytes from the first member's first to the last member's last, alignment gaps included. */
function wholeBucket(run: Run, values: readonly number[]): DeviceBuffer {
  const places = values.map((id) => placeOf(run.plan, id));
  const [first] = places;
  const last = places.at(-1);
  if (first === undefined || last === undefined || first.kind === 'leaf' || last.kind === 'leaf') {
    throw new RangeError('a bucket without members');
  }
  const byteLength = last.byteOffset + last.byteLength - first.byteOffset;
  return locate(run, { ...first, byteLength });
}
