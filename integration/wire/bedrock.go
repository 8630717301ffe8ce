package wire

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/bedrock"
)

// Bedrock is Claude on Amazon Bedrock, by InvokeModel.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html
var Bedrock = Provider{Name: "Bedrock (Anthropic models)", judge: invokeModel{}, dial: func(url string) (llms.Model, error) {
	client := bedrockruntime.New(bedrockruntime.Options{
		HTTPClient:   fromMemory{},
		BaseEndpoint: &url,
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
	return bedrock.New(bedrock.WithClient(client), bedrock.WithModel("anthropic.claude-sonnet-4-5-20250929-v1:0"))
}}

// fromMemory sends requests whose bodies nobody else can close. smithy-go
// v1.22.2 closes a body as soon as the response begins
// (transport/http/client.go, ClientHandler.Handle); a server as near as this
// one answers before the transport is done with the body, which then drops the
// connection in the middle of a streamed response.
type fromMemory struct{}

// Do implements bedrockruntime.HTTPClient.
func (fromMemory) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultClient.Do(r) //nolint:gosec // the client under test, at this process's own server
}

type invokeModel struct{}

func (invokeModel) read(r *http.Request, body []byte) (Exchange, error) {
	e, err := split(body, "messages")
	if err != nil {
		return e, err
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
		return e, &refusal{status: http.StatusForbidden, message: "Missing Authentication Token"}
	}
	// The operation says whether it is a stream; the body must not:
	// https://github.com/sigoden/aichat/issues/543
	for _, key := range []string{"stream", "model"} {
		if _, ok := e.Rest[key]; ok {
			return e, refuse("Malformed input request: #: extraneous key [%s] is not permitted, "+
				"please reformat your input and try again.", key)
		}
	}
	// "anthropic_version – (Required) … The value must be bedrock-2023-05-31."
	if string(e.Rest["anthropic_version"]) != `"bedrock-2023-05-31"` {
		return e, refuse("anthropic_version: Field required")
	}
	e.Stream = strings.HasSuffix(r.URL.Path, "/invoke-with-response-stream")
	if !e.Stream && !strings.HasSuffix(r.URL.Path, "/invoke") {
		return e, &refusal{status: http.StatusNotFound, message: "UnknownOperationException"}
	}
	return e, judgeClaude(&e)
}

// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html (errors)
func (invokeModel) refuse(w http.ResponseWriter, why *refusal) {
	w.Header().Set("X-Amzn-Errortype", "ValidationException")
	writeJSON(w, why.status, object{"message": why.message})
}

func (invokeModel) answer(w http.ResponseWriter, e Exchange, r Reply, id func() int) {
	if !e.Stream {
		writeJSON(w, http.StatusOK, claudeMessage(e, r, id))
		return
	}
	// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	encoder := eventstream.NewEncoder()
	claudeStream(e, r, id, func(event object) {
		_ = encoder.Encode(w, eventstream.Message{ // the client has gone: nobody to tell
			Headers: eventstream.Headers{
				{Name: ":event-type", Value: eventstream.StringValue("chunk")},
				{Name: ":content-type", Value: eventstream.StringValue("application/json")},
				{Name: ":message-type", Value: eventstream.StringValue("event")},
			},
			Payload: []byte(text(object{"bytes": base64.StdEncoding.EncodeToString([]byte(text(event)))})),
		})
	})
}
