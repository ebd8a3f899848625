import { currentSession, LayoutError } from '@shardwise/core/extend';

/** Returns the number of ranks of each of the axes. Throws LayoutError if they differ. */
export function gridSize(name: string, axes: readonly string[]): number {
  const { mesh } = currentSession();
  const sizes = axes.map((axis) => mesh.group(axis).size);
  const [size = 1] = sizes;
  if (sizes.every((each) => each === size)) return size;
  throw new LayoutError(
    {
      asked: `${name} tensor parallelism over the axes ${axes.join(', ')}`,
      found: `${sizes.join(' × ')} ranks`,
      todo: 'Give these axes of the mesh one size',
    },
    { axes, sizes },
  );
}
