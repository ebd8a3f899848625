import { TensorStateError } from '../spec/errors.ts';

/** A step of an optimizer whose parameters an updater updates or observes. */
export interface UpdateRequest {
  /** The name of the class of the optimizer. */
  readonly optimizer: string;
  /** The parameters of each group, and its settings. */
  readonly groups: readonly UpdatedGroup[];
  /** Updates the parameters on this rank, by the optimizer's own rule. */
  readonly updateHere: () => Promise<void>;
}

/** A parameter group of an `UpdateRequest`. */
export interface UpdatedGroup {
  readonly params: readonly object[];
  readonly settings: Readonly<Record<string, unknown>>;
}

/** An object that carries out the steps of optimizers in their place, such as parameter servers. */
export interface Updater {
  /** The name in messages. */
  readonly name: string;
  /** Whether the optimizer's states are elsewhere, so that this rank has none to save. */
  readonly keepsStates: boolean;
  /** Whether gradients of this rank are averaged with those of others after the step has begun. */
  readonly averagesLater: boolean;
  /** Called before each `assign`. Throws if only the updater may write. */
  checkAssign(): void;
  step(request: UpdateRequest): Promise<void>;
}

/** The error of who changes a gradient that is averaged afterwards. */
export function averagedLater({ name }: Updater): TensorStateError {
  return new TensorStateError(
    {
      asked: 'to change a gradient before the update',
      found: `the gradient of this rank alone, which ${name} average with those of the others in step()`,
      todo: 'Leave gradients as they are, or use a consistency that is not synchronous, where each worker has its own',
    },
    { updater: name },
  );
}
