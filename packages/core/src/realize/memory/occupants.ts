import type { Place } from '../segments/memory-map.ts';
import type { ExecutionPlan } from '../plan/execution-plan.ts';

/** A value in memory that a plan places: where it lies, and in which steps. */
export interface Occupant {
  readonly place: Exclude<Place, { kind: 'leaf' }>;
  /** The id of the last value that lies there. A collective in place writes its result over its input. */
  value: number;
  /** The first and the last step that write or read it. Results live on after the last step. */
  first: number;
  last: number;
}

/** The values in the memory that runs of a plan allocate. Values without steps are left out. */
export function occupantsOf({ graph, memory, steps }: ExecutionPlan): readonly Occupant[] {
  const found = new Map<Place, Occupant>();
  const use = (ids: readonly number[], step: number): void => {
    for (const id of ids) {
      const place = memory.places[id];
      if (place === undefined || place.kind === 'leaf') continue;
      const known = found.get(place);
      if (known === undefined) found.set(place, { place, value: id, first: step, last: step });
      else {
        known.first = Math.min(known.first, step);
        known.last = Math.max(known.last, step);
        known.value = Math.max(known.value, id);
      }
    }
  };
  const inputsOf = (id: number): readonly number[] => graph.values[id]?.inputs ?? [];
  const madeIn = new Map<number, number>();
  steps.forEach((step, index) => {
    if (step.kind === 'compute') {
      for (const id of step.outputs) madeIn.set(id, index);
      use(step.inputs, index);
      use(step.outputs, index);
    } else if (step.kind === 'copy') use([step.from], index);
    else {
      use(step.values.flatMap(inputsOf), index);
      use(step.values, index);
    }
  });
  // The inputs of a concatenation in place lie there by themselves until the last of them is written.
  for (const [whole, inputs] of memory.concats) {
    const last = Math.max(...inputs.map((id) => madeIn.get(id) ?? -1));
    use(inputs, last);
    use([whole], last + 1);
    madeIn.set(whole, last);
  }
  use(graph.roots, steps.length);
  return [...found.values()];
}
