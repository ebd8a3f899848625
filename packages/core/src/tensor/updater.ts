import { TensorStateError } from '../spec/errors.ts';

/** A step of an optimizer whose parameters somebody else updates, or sees updated. */
export interface UpdateRequest {
  /** The class of the optimizer, by its name. */
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

/** Whoever carries out the steps of optimizers in their place, as parameter servers do. */
export interface Updater {
  /** Who it is, for messages. */
  readonly name: string;
  /** Whether the optimizer's states lie elsewhere, so that this rank has none to save. */
  readonly keepsStates: boolean;
  /** Whether gradients of this rank are averaged with those of others after the step has begun. */
  readonly averagesLater: boolean;
  /** Called before each `assign`. Throws where only the updater may write. */
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
