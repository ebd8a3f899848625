import { currentRegion, type Module } from '@shardwise/core/extend';

/**
 * Returns the paths at which stages can begin. `paths` stand in the order of the model. Modules that `forward` does not
 * call are left out, and so are modules inside of a checkpoint, which the backward pass recomputes. If `forward` calls
 * some in another order than that of the model, the result is the longest list in the model's order.
 */
export function callOrder(
  model: Module,
  paths: readonly string[],
  forward: () => unknown,
): readonly string[] {
  const called = new Set<number>();
  const removes = paths.map((path, place) =>
    model.getSubmodule(path).registerForwardPreHook(() => {
      if (currentRegion() === null) called.add(place);
    }),
  );
  try {
    forward();
  } finally {
    for (const remove of removes) remove();
  }
  return longestAscent([...called]).map((place) => paths[place] ?? '');
}

/** Returns the longest subsequence of ascending numbers. Of several equally long ones it is the one that ends first. */
function longestAscent(numbers: readonly number[]): readonly number[] {
  const ending: { readonly length: number; readonly before: number }[] = [];
  let longest = -1;
  for (const [index, number] of numbers.entries()) {
    let before = -1;
    for (const [earlier, other] of numbers.slice(0, index).entries()) {
      const isLonger = (ending[earlier]?.length ?? 0) > (ending[before]?.length ?? 0);
      if (other < number && isLonger) before = earlier;
    }
    ending.push({ length: 1 + (ending[before]?.length ?? 0), before });
    if ((ending[index]?.length ?? 0) > (ending[longest]?.length ?? 0)) longest = index;
  }
  const found: number[] = [];
  for (let index = longest; index >= 0; index = ending[index]?.before ?? -1) {
    found.unshift(numbers[index] ?? 0);
  }
  return found;
}
