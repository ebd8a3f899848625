import { currentSession, type MeshAxis, type ProcessGroup } from '@shardwise/core/extend';

/** The number of models of this rank that have been planned over a group. Its ranks have planned as many. */
const counts = new WeakMap<ProcessGroup, number>();

/**
 * Tells the collectives of a model from those of other models, whose parameters and layers may have the same names. On
 * each axis, the models of the ranks are numbered in the order in which plans were applied to them.
 */
export class ModelNumbers {
  readonly #numbers: ReadonlyMap<string, number>;

  /** Counts a model whose plan has these axes. */
  constructor(axes: readonly MeshAxis[]) {
    const { mesh } = currentSession();
    const names = axes.map(({ name }) => name).filter((name) => hasAxis(mesh.axes, name));
    this.#numbers = new Map(
      names.map((name) => {
        const group = mesh.group(name);
        const number = (counts.get(group) ?? 0) + 1;
        counts.set(group, number);
        return [name, number] as const;
      }),
    );
  }

  /** What the name of a collective over an axis ends with: nothing for the first model, and then ` of model 2`. */
  suffix(axis: string): string {
    const number = this.#numbers.get(axis) ?? 1;
    return number === 1 ? '' : ` of model ${number}`;
  }
}

function hasAxis(axes: readonly MeshAxis[], name: string): boolean {
  return axes.some((axis) => axis.name === name);
}
