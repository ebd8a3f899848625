import type { ChatMessage } from '@shardwise/data';
import { ApiError } from '../api-error.ts';
import type { InputItem, ResponseBody, ResponseTool, ToolFields } from '../request-bodies.ts';

/** The conversation of a body, as chat templates read it. Throws ApiError 400 for an output of a call that is not there. */
export function messagesOf({ instructions, input }: ResponseBody): readonly ChatMessage[] {
  const items: readonly InputItem[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  const messages: ChatMessage[] =
    instructions == null ? [] : [{ role: 'system', content: instructions }];
  const called = new Set<string>();
  for (const item of items) {
    if (item.type === 'function_call') {
      called.add(item.call_id);
      const { call_id: id, name, arguments: written } = item;
      const call = { id, type: 'function', function: { name, arguments: written } };
      addCall(messages, call);
    } else if (item.type === 'function_call_output') {
      if (!called.has(item.call_id)) throw withoutCall(item.call_id);
      messages.push({ role: 'tool', tool_call_id: item.call_id, content: item.output });
    } else {
      // Templates call it the system, as chat completions do.
      const role = item.role === 'developer' ? 'system' : item.role;
      messages.push({ role, content: item.content });
    }
  }
  return messages;
}

/** Calls that follow each other, and the text before them, are one message of the assistant. */
function addCall(messages: ChatMessage[], call: object): void {
  const last = messages.at(-1);
  if (last?.role !== 'assistant') {
    messages.push({ role: 'assistant', content: '', tool_calls: [call] });
    return;
  }
  const known: unknown = last.tool_calls;
  const calls = Array.isArray(known) ? [...(known as unknown[]), call] : [call];
  messages[messages.length - 1] = { ...last, tool_calls: calls };
}

/** The fields that say what may be called, as those of chats. */
export function toolFieldsOf(body: ResponseBody): ToolFields {
  const { tools, tool_choice: choice, parallel_tool_calls } = body;
  return {
    tools: tools?.map(({ type, ...rest }: ResponseTool) => ({ type, function: rest })),
    tool_choice:
      choice == null || typeof choice === 'string'
        ? choice
        : { type: choice.type, function: { name: choice.name } },
    parallel_tool_calls,
  };
}

function withoutCall(id: string): ApiError {
  const message = `input: an output of the call '${id}', and no function_call before it has this call_id.`;
  return new ApiError(400, message, { param: 'input' });
}
