import type { Storage } from '../../graph/storage.ts';
import type { Page, PageSource, PageStore } from '../../paging/page.ts';
import { elementCount } from '../../base/shape.ts';
import type { Backend, DeviceBuffer, Sizes } from '../../spec/backend.ts';
import { dtypes, type Shape } from '../../spec/dtype.ts';
import type { Mesh } from '../../spec/mesh.ts';
import type { CallIdentity } from '../../spec/process-group.ts';
import type { Sized } from '../../base/sized.ts';
import type { MemoryMap, Place } from '../segments/memory-map.ts';
import type { Numbering } from '../values/values.ts';

/** The values of a graph, and their places in the runs of its plan. */
export interface MappedGraph extends Numbering {
  readonly memory: MemoryMap;
  /** The shapes of the values of a graph with sizes that vary. Null if no size varies: `graph` has the shapes. */
  readonly shapes: Sized<readonly Shape[]> | null;
}

/** The state and memory of one run of a plan. */
export interface Run {
  readonly backend: Backend;
  readonly mesh: Mesh;
  readonly plan: MappedGraph;
  /** The numbers of the plan's symbols. */
  sizes: Sizes;
  /** The shape of each value. Null if the shapes are those of the plan's graph. */
  shapes: readonly Shape[] | null;
  /** The leaves that are on the device now, by number. */
  readonly leaves: Map<number, DeviceBuffer>;
  /** The buffers of scratch memory, by their number. */
  readonly scratch: readonly DeviceBuffer[];
  readonly allocations: readonly Storage[];
  /** One object for each place, so that an output in the place of its input is recognized by its buffer. */
  readonly buffers: Map<Place, DeviceBuffer>;
  readonly stores: readonly (PageStore | PageSource)[];
  /** The pages of values that were paged out, by value id. */
  readonly pages: Map<number, Page>;
  /** What the collectives that travel as one message are, from the ids of their values. */
  readonly identityOf: (ids: readonly number[]) => CallIdentity | undefined;
  readonly started: Map<number, Promise<void>>;
  /** Settles when the group has been called for the last collective that was started. */
  called: Promise<unknown>;
  /** Collectives and transfers that were started and are not done. */
  readonly inFlight: Set<Promise<void>>;
}

export function placeOf(plan: MappedGraph, id: number): Place {
  const place = plan.memory.places[id];
  if (place === undefined) throw new RangeError(`value ${id} has no place`);
  return place;
}

/** The bytes of a value that has memory. */
export function bytesIn(plan: MappedGraph, shapes: readonly Shape[] | null, id: number): number {
  const value = plan.graph.values[id];
  if (value === undefined) throw new RangeError(`no value ${id}`);
  return elementCount(shapes?.[id] ?? value.shape) * dtypes[value.dtype].bytes;
}

export function bufferOf(run: Run, id: number): DeviceBuffer {
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

export function locate(run: Run, place: Place): DeviceBuffer {
  const base =
    place.kind === 'leaf'
      ? run.leaves.get(place.leaf)
      : place.kind === 'scratch'
        ? run.scratch[place.buffer]
        : run.allocations[place.allocation]?.buffer;
  if (base === undefined) throw new RangeError(`no memory for a ${place.kind}`);
  return place.kind === 'leaf' ? base : base.subBuffer(place.byteOffset, place.byteLength);
}

export function inputOf(plan: MappedGraph, id: number): number {
  const [input] = plan.graph.values[id]?.inputs ?? [];
  if (input === undefined) throw new RangeError(`value ${id} has no input`);
  return input;
}

export async function bytesOf(backend: Backend, buffer: DeviceBuffer): Promise<Uint8Array> {
  return backend.map(buffer) ?? (await backend.read(buffer));
}

export async function copy(backend: Backend, from: DeviceBuffer, to: DeviceBuffer): Promise<void> {
  const bytes = await bytesOf(backend, from);
  const target = backend.map(to);
  // If the device computes in host memory, the bytes are written directly, because a collective may read them next.
  if (target === undefined) backend.write(to, bytes);
  else target.set(bytes);
}

/** Fills a buffer: directly if the device computes in host memory, otherwise in the order of the device's queue. */
export async function fillBuffer(
  backend: Backend,
  buffer: DeviceBuffer,
  read: (target: Uint8Array) => Promise<void>,
): Promise<void> {
  const mapped = backend.map(buffer);
  const bytes = mapped ?? new Uint8Array(buffer.byteLength);
  await read(bytes);
  if (mapped === undefined) backend.write(buffer, bytes);
}
