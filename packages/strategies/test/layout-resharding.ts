import { type LayoutName, ranksOf } from './ranks/reshard-layouts.ts';
import type { Half } from './resharding.ts';

export const url: URL = new URL('./ranks/reshard-layouts.ts', import.meta.url);

export function halfOn(layout: LayoutName): Half {
  return { ranks: ranksOf(layout), job: { layout } };
}
