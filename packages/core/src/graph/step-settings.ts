import { rankState } from '../ambient.ts';
import { isHeldAt, type PlaceOf } from '../layout/chunks.ts';
import type { Layout } from '../spec/layout.ts';
import type { CallIdentity } from '../spec/process-group.ts';
import type { Node } from './node.ts';
import type { GroupSettings, SettingValue } from './noted-settings.ts';
import { StepsMade } from './noted-settings.ts';

// Ranks that train one model must give its updates the same settings. Each rank notes them where a program makes an
// update, and collectives of the graph carry a number that follows from them (`CallIdentity.steps`). Ranks compare it
// where they meet anyway.

/** What is known of a tensor that is updated, or of the part of it that this rank has. */
export interface UpdatedTensor {
  readonly contents: Node;
  readonly layout: Layout;
  readonly shardedOver: readonly string[];
  readonly gradientNode: Node | null;
  /** Who updates it in the place of optimizers. Ranks that only send it gradients may be at different steps. */
  readonly updater: object | null;
}

/** The settings of a call by which a program changes parameters or gradients. */
export interface ToldSettings {
  /** The call, for errors: `AdamW.step()`. */
  readonly call: string;
  /** The settings of each group of parameters. Only numbers, switches, texts and lists of numbers are compared. */
  readonly groups: readonly object[];
}

/** So many calls are noted at most until a step, because a program may make its updates without an optimizer. */
const MAX_NOTED = 1000;

/** Notes what an optimizer's step was told (`isStep`), or a call before the next step, such as `clipGradNorm`. */
export function noteSettings(
  { call, groups }: ToldSettings,
  tensors: Iterable<UpdatedTensor>,
  placeOf: PlaceOf,
  isStep = false,
): void {
  const axes = commonAxes(tensors, placeOf);
  if (axes.size === 0) return;
  const noted = { call, groups: groups.map(comparedOf) };
  for (const name of axes) {
    const axis = rankState.stepSettings.get(name) ?? { made: null, next: [] };
    rankState.stepSettings.set(name, axis);
    if (axis.next.length < MAX_NOTED) axis.next.push(noted);
    if (!isStep) continue;
    axis.made = new StepsMade(axis.made, axis.next);
    axis.next = [];
  }
}

/** The settings of a group that ranks compare, as they are now. */
function comparedOf(group: object): GroupSettings {
  const compared = new Map<string, SettingValue>();
  for (const [name, value] of Object.entries(group)) {
    if (isNumbers(value)) compared.set(name, [...value]);
    else if (isPlain(value)) compared.set(name, value);
  }
  return compared;
}

function isPlain(value: unknown): value is number | boolean | string {
  return typeof value === 'number' || typeof value === 'boolean' || typeof value === 'string';
}

function isNumbers(value: unknown): value is readonly number[] {
  return (
    Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'number')
  );
}

/**
 * The axes of the mesh whose ranks train the tensors together. Ranks that each have their own values, as in local SGD,
 * may train them differently. So may stages of a pipeline with an optimizer for the parameters of each stage.
 */
function commonAxes(tensors: Iterable<UpdatedTensor>, placeOf: PlaceOf): Set<string> {
  const axes = new Set<string>();
  const most = rankState.session?.mesh.axes.length ?? Infinity;
  for (const { contents, layout, shardedOver, gradientNode, updater } of tensors) {
    if (updater !== null) continue;
    const types = contents.axisTypes?.byAxis;
    const addCommon = (axis: string): void => {
      if (layout.varying?.includes(axis) !== true) axes.add(axis);
    };
    shardedOver.forEach(addCommon);
    types?.forEach((type, axis) => {
      if (isSame(type)) addCommon(axis);
    });
    // The program may have averaged the gradients itself.
    gradientNode?.axisTypes?.byAxis.forEach((type, axis) => {
      if (isSame(type) && types?.get(axis) !== 'varying') addCommon(axis);
    });
    if (layout.only !== undefined && !isHeldAt(layout, placeOf)) addCommon(layout.only.axis);
    if (axes.size === most) break;
  }
  return axes;
}

function isSame(type: string): boolean {
  return type === 'replicate' || type === 'invariant';
}

/** The steps that the program has made so far with tensors that the ranks of an axis train together. */
export function stepsOn(axis: string): StepsMade | undefined {
  return rankState.stepSettings.get(axis)?.made ?? undefined;
}

/** The identity of a collective over an axis that is issued now. */
export function issuedNow(identity: CallIdentity, axis: string): CallIdentity {
  const steps = stepsOn(axis);
  if (steps === undefined) return identity;
  const { hash, stepsBefore } = identity;
  return { hash, stepsBefore, steps, describe: () => identity.describe() };
}
