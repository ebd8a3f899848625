import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorState } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--code-comment)' },
  { tag: [tags.typeName, tags.className], color: 'var(--code-type)' },
]);

/** Makes an editor of TypeScript. Tab leaves the editor, because it is not used for indentation. */
export function createEditor(
  parent: HTMLElement,
  source: string,
  onChange: (source: string) => void,
  onRun: () => void,
): EditorView {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: source,
      extensions: [
        lineNumbers(),
        history(),
        bracketMatching(),
        javascript({ typescript: true }),
        syntaxHighlighting(colors),
        EditorView.contentAttributes.of({ 'aria-label': 'Program' }),
        keymap.of([
          {
            key: 'Mod-Enter',
            run: () => {
              onRun();
              return true;
            },
          },
          ...defaultKeymap,
          ...historyKeymap,
        ]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
  // The scroller can have the focus, so that keys scroll it.
  view.scrollDOM.tabIndex = 0;
  return view;
}
