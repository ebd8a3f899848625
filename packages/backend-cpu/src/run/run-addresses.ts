import type { ArenaBuffer } from '../memory/arena-buffer.ts';
import type { Location, Locations } from '../plan/storage.ts';
import type { AddressOf } from '../program/partition.ts';

/**
 * Where the values of a program's runs lie. If all buffers of a run lie where those of the last run did, the run gets
 * the same function. Partitions compare the functions to see whether the addresses they have are still right. This is
 * usual for training steps, whose buffers get the places that the step before gave back.
 */
export class RunAddresses {
  readonly #locations: Locations;
  #starts: readonly number[] = [];
  #addressOf: AddressOf | undefined;

  constructor(locations: Locations) {
    this.#locations = locations;
  }

  at(inputs: readonly ArenaBuffer[], outputs: readonly ArenaBuffer[], scratch: number): AddressOf {
    const starts = [scratch];
    for (const { byteOffset } of inputs) starts.push(byteOffset);
    for (const { byteOffset } of outputs) starts.push(byteOffset);
    const last = this.#starts;
    const isSame = starts.length === last.length && starts.every((start, at) => start === last[at]);
    const known = this.#addressOf;
    if (known !== undefined && isSame) return known;
    const addresses = new Map<number, number>();
    for (const [id, location] of this.#locations.of) {
      addresses.set(id, addressIn(location, inputs, outputs, scratch));
    }
    const addressOf = (id: number): number => {
      const address = addresses.get(id);
      if (address === undefined) throw new RangeError(`value ${id} is not in memory`);
      return address;
    };
    this.#starts = starts;
    this.#addressOf = addressOf;
    return addressOf;
  }
}

export function addressIn(
  location: Location,
  inputs: readonly ArenaBuffer[],
  outputs: readonly ArenaBuffer[],
  scratch: number,
): number {
  if (location.in === 'scratch') return scratch + location.byteOffset;
  const buffer = (location.in === 'input' ? inputs : outputs)[location.index];
  if (buffer === undefined) throw new RangeError(`no ${location.in} ${location.index}`);
  return buffer.byteOffset;
}
