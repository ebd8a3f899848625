import { rankState } from './ambient.ts';
import type { EventFacts, Statistics, TimelineEvent, VaryingSize } from './timeline-event.ts';

/** A snapshot of counters. Subtract two snapshots to see what happened between them. */
export function statistics(): Statistics {
  return { ...rankState.counters };
}

/** The sizes that vary in the plans of this rank. Other sizes follow from them. */
export function varyingSizes(): readonly VaryingSize[] {
  return [...rankState.varyingSizes.values()].flat();
}

export function count(counter: keyof Statistics, amount: number): void {
  rankState.counters[counter] += amount;
}

/** Calls `listener` for each event until the returned function is called. */
export function subscribe(listener: (event: TimelineEvent) => void): () => void {
  const { timelineListeners } = rankState;
  timelineListeners.add(listener);
  return () => timelineListeners.delete(listener);
}

/** Records work that began at `start` (a performance.now() time) and ends now. Returns its milliseconds. */
export function record(
  category: TimelineEvent['category'],
  name: string,
  start: number,
  facts?: EventFacts,
): number {
  const durationMs = performance.now() - start;
  tell(category, name, start, durationMs, facts);
  return durationMs;
}

/**
 * Records work that a device was given at `start` (a performance.now() time) and computed for `durationMs`. A device
 * does one thing after the other, so it began this work not before the end of the work that was recorded last.
 * Returns `durationMs`.
 */
export function recordOnDevice(
  category: TimelineEvent['category'],
  name: string,
  start: number,
  durationMs: number,
): number {
  const begin = Math.max(start, rankState.deviceIdleFrom);
  rankState.deviceIdleFrom = begin + durationMs;
  tell(category, name, begin, durationMs);
  return durationMs;
}

function tell(
  category: TimelineEvent['category'],
  name: string,
  start: number,
  durationMs: number,
  facts?: EventFacts,
): void {
  const { timelineListeners } = rankState;
  if (timelineListeners.size > 0) {
    const event: TimelineEvent = {
      name,
      category,
      startMs: performance.timeOrigin + start,
      durationMs,
      ...facts,
    };
    for (const listener of timelineListeners) listener(event);
  }
}
