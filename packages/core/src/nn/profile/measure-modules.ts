import type { Node } from '../../graph/node.ts';
import { currentSession } from '../../rank.ts';
import type { Module } from '../module/module.ts';
import { nodesSince } from '../summary/nodes-since.ts';

/**
 * Computes `roots` one module after the other, and returns the milliseconds of each module with the modules that it
 * calls (null: of everything). Consecutive nodes that were made in the same module run together. Values that pass from
 * one to the next are kept until the graph is dropped, and modules are not fused, so the sum is more than the time of a
 * step.
 */
export async function measureModules(
  roots: readonly Node[],
  olderId: number,
  modulesOf: (node: Node) => readonly Module[],
): Promise<ReadonlyMap<Module | null, number>> {
  const nodes = [...nodesSince(roots, olderId)].toSorted((a, b) => a.id - b.id);
  const numbers = new Map<Node, number>();
  const stacks: (readonly Module[])[] = [];
  for (const node of nodes) {
    const stack = modulesOf(node);
    if (stack !== stacks.at(-1)) stacks.push(stack);
    numbers.set(node, stacks.length - 1);
  }
  const passedOn = new Set(roots);
  for (const node of nodes) {
    for (const input of node.inputs) {
      if (numbers.get(input) !== numbers.get(node)) passedOn.add(input);
    }
  }
  const byStack = Map.groupBy(passedOn, (node) => numbers.get(node));
  const times = new Map<Module | null, number>();
  for (const [number, stack] of stacks.entries()) {
    const wanted = byStack.get(number)?.filter(({ value }) => value === null) ?? [];
    if (wanted.length === 0) continue;
    const start = performance.now();
    await currentSession().realize(wanted);
    const duration = performance.now() - start;
    for (const module of [null, ...new Set(stack)]) {
      times.set(module, (times.get(module) ?? 0) + duration);
    }
  }
  return times;
}
