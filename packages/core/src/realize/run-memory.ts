import type { Storage } from '../graph/storage.ts';
import type { Page, PageSource, PageStore } from '../paging/page.ts';
import { elementCount } from '../shape.ts';
import type { Backend, DeviceBuffer } from '../spec/backend.ts';
import { dtypes, type Shape } from '../spec/dtype.ts';
import type { Mesh } from '../spec/mesh.ts';
import type { Sized, Sizes } from '../spec/sized.ts';
import type { MemoryMap, Place } from './memory-map.ts';
import type { Numbering } from './values.ts';

/** The values of a graph, and where they lie in the runs of its plan. */
export interface MappedGraph extends Numbering {
  readonly memory: MemoryMap;
  /** The shapes of the values of a graph with sizes that vary; null where none does: `graph` has them. */
  readonly shapes: Sized<readonly Shape[]> | null;
}

/** Memory of one run of a plan. */
export interface Run {
  readonly backend: Backend;
  readonly mesh: Mesh;
  readonly plan: MappedGraph;
  /** What the symbols of the plan are. */
  sizes: Sizes;
  /** The shape of each value; null where they are those of the plan's graph. */
  shapes: readonly Shape[] | null;
  /** The leaves that are on the device now, by number. */
  readonly leaves: Map<number, DeviceBuffer>;
  /** By the number of the buffer. */
  readonly scratch: readonly DeviceBuffer[];
  readonly allocations: readonly Storage[];
  /** One object per place, so that an output that lies on its input is seen to do so. */
  readonly buffers: Map<Place, DeviceBuffer>;
  readonly stores: readonly (PageStore | PageSource)[];
  /** What has been paged out, by value. */
  readonly pages: Map<number, Page>;
  readonly started: Map<number, Promise<void>>;
  /** Settles when the group knows of the last collective that was started. */
  called: Promise<void>;
  /** Collectives that have been issued and are not done. */
  readonly inFlight: Set<Promise<void>>;
}

export function placeOf(plan: MappedGraph, id: number): Place {
  const place = plan.memory.places[id];
  if (place === undefined) throw new RangeError(`value ${id} has no place`);
  return place;
}

/** Bytes of a value that has memory. */
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
  // At once, as `fill`: a collective may be next.
  if (target === undefined) backend.write(to, bytes);
  else target.set(bytes);
}

/** Fills a buffer: at once where the device computes in host memory, else in the order of the device's queue. */
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
