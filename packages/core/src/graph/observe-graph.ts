import { rankState } from '../ambient.ts';
import type { GraphObserver } from './graph-observer.ts';
import type { Node } from './node.ts';

/** Tells `observer` of graphs, beside other observers, until the returned function is called. */
export function observeGraph(observer: GraphObserver): () => void {
  const known = rankState.observer instanceof Observers ? rankState.observer : new Observers();
  known.all.add(observer);
  rankState.observer = known;
  return () => {
    known.all.delete(observer);
    if (known.all.size === 0 && rankState.observer === known) rankState.observer = null;
  };
}

/** Tells several observers what a rank tells one. */
class Observers implements GraphObserver {
  readonly all = new Set<GraphObserver>();

  gradient(node: Node, olderId: number): void {
    for (const each of this.all) each.gradient(node, olderId);
  }
  backward(olderId: number): void {
    for (const each of this.all) each.backward(olderId);
  }
  remade(node: Node, copy: Node): void {
    for (const each of this.all) each.remade(node, copy);
  }
  update(olderId: number): void {
    for (const each of this.all) each.update(olderId);
  }
  pool(output: Node, input: Node): void {
    for (const each of this.all) each.pool(output, input);
  }
  run(nodes: readonly Node[]): void {
    for (const each of this.all) each.run(nodes);
  }
}
