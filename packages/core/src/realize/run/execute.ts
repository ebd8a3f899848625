import type { Node, NodeValue } from '../../graph/node.ts';
import { adoptStorage } from '../../graph/ownership.ts';
import { Storage } from '../../graph/storage.ts';
import type { Backend, DeviceBuffer } from '../../spec/backend.ts';
import { count, record, recordOnDevice } from '../../timeline.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';
import type { PlanStep } from '../steps/plan-step.ts';
import { bufferOf, bytesIn, copy, fillBuffer, placeOf, type Run } from '../steps/run-memory.ts';
import type { RootResult } from './run-failure.ts';

/** A message that is sent before step number `step`, or after all steps if there is no such step. */
interface DueMessage {
  readonly step: number;
  readonly send: () => Promise<void>;
}

/** Runs a plan on the values of its leaves. Returns one result for each root, in order. Throws RunFailure. */
export async function execute(
  plan: ExecutionPlan,
  leaves: readonly Node[],
  {
    backend,
    mesh,
    stores,
    sizes,
    dueMessage,
    identityOf,
  }: Pick<Run, 'backend' | 'mesh' | 'stores' | 'sizes' | 'identityOf'> & {
    readonly dueMessage: DueMessage | null;
  },
): Promise<readonly RootResult[]> {
  const temporary = new Map<Node | number, DeviceBuffer>();
  const allocations: Storage[] = [];
  const started = new Map<number, Promise<void>>();
  try {
    const shapes = plan.shapes?.at(sizes) ?? null;
    for (const { byteLength, of } of plan.memory.allocations) {
      const bytes = of === null ? byteLength : bytesIn(plan, shapes, of);
      allocations.push(Storage.allocate(backend, bytes));
    }
    // If there is no memory for one of them, those before it are freed, because they are in `temporary`.
    const scratch = plan.memory.scratchBuffers.map((byteLength, number) => {
      const buffer = backend.alloc(byteLength);
      temporary.set(number, buffer);
      return buffer;
    });
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
      identityOf,
      started,
      called: Promise.resolve(),
      inFlight: new Set(),
    };
    for (let index = 0; index <= plan.steps.length; index++) {
      const step = plan.steps[index];
      try {
        if (index === dueMessage?.step) await sendMessage(run, dueMessage);
        if (step === undefined) break;
        for (const number of plan.leafUses.needed[index] ?? []) {
          const leaf = leaves[number];
          if (leaf === undefined || run.leaves.has(number)) continue;
          run.leaves.set(number, await leafBuffer(leaf, backend, temporary));
        }
        await runStep(run, step);
      } catch (error) {
        // Most runs do not fail.
        const { failureOf } = await import('./failure-of.ts');
        throw await failureOf(run, plan, index, error, (id) => rootResult(run, id));
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
    // Started collectives and transfers must end before their memory is given back, also if something else failed.
    await Promise.allSettled(started.values());
    for (const buffer of temporary.values()) backend.free(buffer);
    for (const storage of allocations) storage.release();
  }
}

async function sendMessage({ called, started }: Run, { send }: DueMessage): Promise<void> {
  await called;
  try {
    await send();
  } catch (error) {
    // If ranks called different collectives, an earlier one has failed, too, and its error gives the reason.
    await Promise.all(started.values());
    throw error;
  }
}

async function leafBuffer(
  leaf: Node,
  backend: Backend,
  temporary: Map<Node | number, DeviceBuffer>,
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
 * Fills a buffer. If the device computes in host memory, the bytes are written there directly, because the next step
 * may read them without the device's queue.
 */
async function fill(
  backend: Backend,
  buffer: DeviceBuffer,
  value: Extract<NodeValue, { kind: 'host' | 'paged' }>,
): Promise<void> {
  if (value.kind === 'paged')
    return fillBuffer(backend, buffer, (target) => value.page.read(target));
  const mapped = backend.map(buffer);
  if (mapped === undefined) backend.write(buffer, value.bytes);
  else mapped.set(value.bytes);
}

function rootResult(run: Run, id: number): RootResult {
  const page = run.pages.get(id);
  if (page !== undefined) return { kind: 'page', page };
  const place = placeOf(run.plan, id);
  const allocation = place.kind === 'result' ? run.allocations[place.allocation] : undefined;
  if (place.kind !== 'result' || allocation === undefined)
    throw new RangeError('a root outside the results');
  const byteLength = run.shapes === null ? place.byteLength : bytesIn(run.plan, run.shapes, id);
  return { kind: 'storage', storage: allocation.part(place.byteOffset, byteLength) };
}

async function runStep(run: Run, step: PlanStep): Promise<void> {
  const start = performance.now();
  switch (step.kind) {
    case 'compute': {
      const inputs = step.inputs.map((id) => bufferOf(run, id));
      const outputs = step.outputs.map((id) => bufferOf(run, id));
      const overlap = run.inFlight.size > 0;
      const sized = step.isSized ? { overlap, sizes: run.sizes } : { overlap };
      const { timing } = run.backend;
      if (timing === 'device') {
        const onComputed = (durationMs: number): void =>
          count('computeMs', recordOnDevice('compute', step.name, start, durationMs));
        await step.executable.run(inputs, outputs, { ...sized, onComputed });
        return;
      }
      await step.executable.run(inputs, outputs, sized);
      const facts = timing === undefined ? undefined : { detail: 'time of encoding' };
      count('computeMs', record('compute', step.name, start, facts));
      return;
    }
    case 'start': {
      // It is issued before the next step begins, because every rank issues collectives in program order.
      const { done } = await step.start(run, start);
      void follow(run, done);
      for (const id of step.values) run.started.set(id, done);
      return;
    }
    case 'wait':
      for (const id of step.values) await run.started.get(id);
      count('communicationMs', performance.now() - start);
      return;
    case 'size': {
      // Most programs have no numbers of rows.
      const { readSize } = await import('../steps/rows-of.ts');
      await readSize(run, step);
      return;
    }
    case 'copy': {
      await copy(run.backend, bufferOf(run, step.from), bufferOf(run, step.leaf));
      return;
    }
    default:
      step satisfies never;
  }
}

/** Counts a collective or transfer among those in flight until it is done. */
async function follow({ inFlight }: Run, done: Promise<void>): Promise<void> {
  inFlight.add(done);
  try {
    await done;
  } catch {
    // The step that waits for it, or the end of the run, sees the failure.
  } finally {
    inFlight.delete(done);
  }
}
