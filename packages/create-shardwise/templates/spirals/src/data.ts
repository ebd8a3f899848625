import { data, Generator } from 'shardwise';

/** A point of the plane, and the spiral on which it lies. Shape: x [2], y []. */
export type Sample = { readonly x: data.NDArray<'f32'>; readonly y: data.NDArray<'i32'> };

export const CLASSES = 3;

/** Spirals that wind around each other. The same seed gives the same points, on every rank. */
export function spirals(points: number, seed: number): data.ArrayDataset<Sample> {
  const generator = new Generator(seed);
  const x = new Float32Array(2 * points);
  const y = new Int32Array(points);
  const radii = generator.rand(points);
  const noise = generator.normal(points, 0, 0.15);
  for (let point = 0; point < points; point++) {
    const spiral = point % CLASSES;
    const radius = radii[point] ?? 0;
    const angle = (2 * Math.PI * spiral) / CLASSES + 5 * radius + (noise[point] ?? 0);
    x.set([radius * Math.cos(angle), radius * Math.sin(angle)], 2 * point);
    y[point] = spiral;
  }
  return new data.ArrayDataset({ x: data.ndArray(x, [points, 2]), y: data.ndArray(y, [points]) });
}
