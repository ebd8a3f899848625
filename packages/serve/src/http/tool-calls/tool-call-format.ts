import type { Tokenizer } from '@shardwise/data';
import { ApiError } from '../api-error.ts';

/** How a model writes the call of a tool: as JSON with the name of the tool and its arguments. */
export interface ToolCallFormat {
  /** What is before and behind each call, which may be between other texts. Null: the whole answer is calls. */
  readonly tags: { readonly open: string; readonly close: string } | null;
  /** Whether the calls are items of an array. */
  readonly isList: boolean;
  readonly argumentsName: 'arguments' | 'parameters';
}

const tags = { open: '<tool_call>', close: '</tool_call>' };
/** A name that no template has by itself. */
const PROBE = 'shardwise_probe';

/**
 * The form that the tokenizer's chat template gives to a call that it reads, which is the one that the model has
 * learned. Known are those of Hermes and Qwen (tags), of Mistral (an array), and of Llama 3 (an object). Throws ApiError
 * 400 for another one.
 */
export function toolCallFormatOf(tokenizer: Tokenizer): ToolCallFormat {
  const text = tokenizer.applyChatTemplate([
    { role: 'user', content: 'a' },
    {
      role: 'assistant',
      content: '',
      tool_calls: [
        // Templates of Mistral ask for an identifier of nine letters.
        { id: 'callprobe', type: 'function', function: { name: PROBE, arguments: { key: 1 } } },
      ],
    },
  ]);
  const call = new RegExp(`(\\[\\s*)?\\{\\s*"name":\\s*"${PROBE}",\\s*"(arguments|parameters)":`);
  const [, list, argumentsName] = call.exec(text) ?? [];
  if (argumentsName !== 'arguments' && argumentsName !== 'parameters') throw unknownFormat();
  const isTagged = text.includes(tags.open) && text.includes(tags.close);
  return { tags: isTagged ? tags : null, isList: list !== undefined && !isTagged, argumentsName };
}

function unknownFormat(): ApiError {
  const message =
    "The model's chat template writes no calls of tools as JSON with a name and arguments.";
  return new ApiError(400, message, { param: 'tools' });
}
