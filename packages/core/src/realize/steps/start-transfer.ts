import { record } from '../../timeline.ts';
import { bufferOf, fillBuffer, inputOf, type Run } from './run-memory.ts';
import { writeKeptPage } from '../../paging/kept-page-names.ts';
import type { TransferValue } from '../values/values.ts';

/** Starts to bring values from a source, a value from a page, or a value to a page, without waiting for the end. */
export async function startTransfer(
  run: Run,
  values: readonly number[],
  transfer: TransferValue,
  start: number,
): Promise<{ readonly done: Promise<void> }> {
  const done =
    transfer.op === 'refresh' ? refreshed(run, values, start) : paged(run, values, transfer, start);
  return { done };
}

/** Fills the values of a bucket, each as soon as the source has its contents. */
async function refreshed(run: Run, values: readonly number[], start: number): Promise<void> {
  let bytes = 0;
  const fillOne = async (id: number): Promise<void> => {
    const value = run.plan.graph.values[id];
    if (value?.op !== 'refresh') throw new RangeError(`value ${id} is not refreshed`);
    const { source: number, name } = value.params;
    const { [number]: source } = run.stores;
    if (source === undefined || !('read' in source)) throw new RangeError(`no source ${number}`);
    const buffer = bufferOf(run, id);
    bytes += buffer.byteLength;
    await fillBuffer(run.backend, buffer, (target) => source.read(name, target));
  };
  // All of them must end before their memory is given back, also if one fails.
  const ended = await Promise.allSettled(values.map(fillOne));
  for (const each of ended) if (each.status === 'rejected') throw each.reason;
  record('transfer', 'refresh', start, { bytes });
}

/** Writes a value to its page, or reads it from there. */
async function paged(
  run: Run,
  [id = -1]: readonly number[],
  { op, params }: Exclude<TransferValue, { op: 'refresh' }>,
  start: number,
): Promise<void> {
  const source = inputOf(run.plan, id);
  if (op === 'pageOut') {
    const { store: number, name } = params;
    const { [number]: store } = run.stores;
    if (store === undefined || !('write' in store)) throw new RangeError(`no store ${number}`);
    const buffer = bufferOf(run, source);
    const bytes = run.backend.map(buffer) ?? (await run.backend.read(buffer));
    // Within a run, values have numbers. Another run has values of the same numbers.
    const outlives = name === null && run.plan.graph.roots.includes(id);
    const page = outlives
      ? await writeKeptPage(store, bytes)
      : await store.write(name ?? `value ${id}`, bytes);
    run.pages.set(id, page);
    record('transfer', op, start, { bytes: buffer.byteLength });
    return;
  }
  const page = run.pages.get(source);
  if (page === undefined) throw new RangeError(`value ${source} is in no page`);
  await fillBuffer(run.backend, bufferOf(run, id), (target) => page.read(target));
  record('transfer', op, start, { bytes: page.byteLength });
}
