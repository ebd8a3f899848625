import { type HostChange, MAX_NODES } from './generation.ts';
import type { Arrival, RendezvousState, Seat } from './rendezvous-state.ts';

/** What other hosts make of a generation whose ranks go on. */
export interface SeatChange {
  readonly state: RendezvousState;
  readonly changes: readonly HostChange[];
}

export interface SeatOptions {
  /** The ids of the hosts that have given no sign of life for too long. */
  readonly silent: ReadonlySet<string>;
  readonly maxNodes: number;
  /** How long they have given none, at least. */
  readonly silenceMs: number;
}

/**
 * Frees the places of hosts that are silent, or that have come anew without them, and gives free places to those that
 * wait: the place of a lost host with as many ranks, and otherwise a new one after all others. So the ranks of a place
 * keep their numbers. Returns undefined if all stay.
 */
export function changeSeats(
  before: RendezvousState,
  { silent, maxNodes, silenceMs }: SeatOptions,
): SeatChange | undefined {
  const changes: HostChange[] = [];
  const seats: Seat[] = before.nodes.map((seat, place) => {
    if (seat.isLost === true) return seat;
    const hasComeAnew = before.waiting.some(({ id }) => id === seat.id);
    if (!silent.has(seat.id) && !hasComeAnew) return seat;
    const reason = hasComeAnew
      ? 'its launcher was cut off'
      : `its launcher gave no sign of life for ${silenceMs} ms`;
    changes.push({ kind: 'lost', place, admission: seat.admission, reason });
    return { ...seat, isLost: true };
  });
  let { admissions } = before;
  const waiting = before.waiting.filter((node) => {
    if (silent.has(node.id)) return false;
    const place = freePlace(seats, node, maxNodes);
    if (place === undefined) return true;
    const seat = { ...node, admission: admissions };
    admissions += 1;
    seats[place] = seat;
    changes.push({ kind: 'came', place, node: seat });
    return false;
  });
  if (changes.length === 0 && waiting.length === before.waiting.length) return undefined;
  return { state: { ...before, nodes: seats, waiting, admissions }, changes };
}

function freePlace(
  seats: readonly Seat[],
  { id, ranks }: Arrival,
  maxNodes: number,
): number | undefined {
  if (seats.filter(({ isLost }) => isLost !== true).length >= maxNodes) return undefined;
  const isFree = (seat: Seat): boolean => seat.isLost === true && seat.ranks === ranks;
  const own = seats.findIndex((seat) => isFree(seat) && seat.id === id);
  const place = own >= 0 ? own : seats.findIndex(isFree);
  if (place >= 0) return place;
  return seats.length < MAX_NODES ? seats.length : undefined;
}
