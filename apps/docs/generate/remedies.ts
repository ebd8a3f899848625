/** The usual cause and the remedy for each code of core/src/spec/errors.ts. */
export const remedies: Readonly<Record<string, { readonly cause: string; readonly todo: string }>> =
  {
    SHAPE: {
      cause:
        'The shapes of the operands do not broadcast, or an operation needs another number of dims.',
      todo: 'Compare the two shapes in the message with the shapes in the doc comment of the operation. The message names the line of your code that called it.',
    },
    DTYPE: {
      cause: 'An operation, a collective or a file does not take values of this dtype.',
      todo: 'Cast with `x.to(dtype)`. Labels and indices are i32.',
    },
    CONFIG: {
      cause: 'An option is misspelt or out of range, or two options exclude each other.',
      todo: 'The message names the option, what it was and what it may be.',
    },
    LAYOUT: {
      cause:
        'A strategy, a layout or a plan does not fit the mesh or the model, for example more shards than rows.',
      todo: 'Print `explain(planFor(model, strategy))` and compare the axes with `context.mesh`.',
    },
    TENSOR_STATE: {
      cause:
        'A tensor was freed or overwritten, has no gradient, or a graph was used a second time.',
      todo: 'Build the forward pass again, or keep the graph with `backward({ retainGraph: true })`.',
    },
    INDEX: {
      cause: 'An index or a label is not in the range of the dim that it indexes.',
      todo: 'The message has the index, its position and the range. Check the labels and the size of the vocabulary.',
    },
    BACKEND: {
      cause: 'The device could not compile or run a part of the graph.',
      todo: 'Read the cause, which is in `error.cause`. If the program is valid on another backend, report it with the message.',
    },
    OUT_OF_MEMORY: {
      cause: "The rank's arena or the device has no room for a tensor.",
      todo: 'See [When memory is too large](/guides/memory): shard states, checkpoint activations, take smaller microbatches, or give each rank more memory.',
    },
    DATA: {
      cause: 'A file or data set cannot be found or read.',
      todo: 'Check the path in the message. Paths are relative to the folder in which the program was started.',
    },
    CHECKPOINT: {
      cause: 'A checkpoint is missing or broken, or it is of another model.',
      todo: 'Compare the names and shapes in the message with those of the model. An unfinished checkpoint is never the newest one.',
    },
    COLLECTIVE: {
      cause: 'A collective failed, mostly because another rank has ended.',
      todo: 'Look at the first error of the run: the launcher prints which rank failed first. The others only noticed it.',
    },
    COLLECTIVE_MISMATCH: {
      cause: 'Ranks called different collectives, sizes or dtypes at the same place.',
      todo: 'See [Debugging a hang](/guides/debugging): an `if (rank === 0)` around a collective is the usual cause. The message names both calls.',
    },
    COLLECTIVE_TIMEOUT: {
      cause: 'A rank did not arrive at a collective in time.',
      todo: 'See [Debugging a hang](/guides/debugging): `shardwise blame` names the rank that stayed behind and where it is.',
    },
    COLLECTIVE_ABORTED: {
      cause: 'A rank ended the group, or the launcher did as another rank failed.',
      todo: 'Look for the first error of the run. This one is its consequence.',
    },
    REFUSED: {
      cause: 'A parameter server refused a request, and told its reason.',
      todo: 'The message has the reason, and `fields.refusal` its name. Check that the worker and the servers were given the same model and options.',
    },
  };
